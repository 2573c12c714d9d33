import { HttpApiWriter } from "../api_write/http_api_writer.ts";
import type { Clock } from "../lib/clock.ts";
import type { Credentials } from "../sources/api/connection/kubeconfig.ts";
import type { ClusterEvent } from "./event.ts";
import { type EventWriter, type Outcome, outcomeOf } from "./writer.ts";

/** Writes Events to the API server over the network, from this thread's network namespace. */
export class HttpEventWriter implements EventWriter {
  readonly #writer: HttpApiWriter;

  /** @param credentials called before each request, since tokens rotate and addresses change */
  constructor(credentials: () => Promise<Credentials>, clock: Clock) {
    this.#writer = new HttpApiWriter(credentials, clock);
  }

  async create({ namespace, body }: ClusterEvent): Promise<Outcome> {
    const path = `/apis/events.k8s.io/v1/namespaces/${encodeURIComponent(namespace)}/events`;
    const answer = await this.#writer.write({ method: "POST", path, body });
    return answer.type === "failed" ? answer : outcomeOf(answer);
  }

  stop(): void {
    this.#writer.stop();
  }
}
