import { setTimeout as wait } from "node:timers/promises";
import type { ApiServerProcess } from "../../apiserver/process.ts";
import type { RawObject } from "../../apiserver/storage.ts";
import { benchService, serviceManifest, sliceManifest, withFirstReplaced } from "../services/cluster.ts";
import type { AddressCommits } from "./address_commits.ts";
import { asStored } from "./cluster.ts";
import type { Plan } from "./plan.ts";
import { untilCommitted } from "./steady_changes.ts";

/** The first numbers above every Service of the cluster: no other Service has the addresses of these. */
const FIRST_NEW_SERVICE = 50_000;
const FIRST_NEW_ENDPOINT = 100_000;
/** A number so large that the daemon has long written a Service when it is removed, even on a busy machine. */
const ROUNDS_UNTIL_REMOVED = 300;
const KINDS = ["a Service added with its EndpointSlice", "an endpoint replaced", "a Service removed"] as const;

/** The number of changes, and their rate. */
export interface Load {
  readonly changes: number;
  readonly perSecond: number;
}

interface ServiceChange {
  readonly objects: readonly RawObject[];
  /** An address whose element in the kernel shows that the change is in force. */
  readonly address: string;
}

/** Makes changes of Services only, at a steady rate. Each instance uses addresses that no other change has. */
export class ServiceChanges {
  readonly #server: ApiServerProcess;
  readonly #commits: AddressCommits;
  readonly #plan: Plan;
  #added = 0;
  #removed = 0;
  #replaced = 0;

  constructor(server: ApiServerProcess, commits: AddressCommits, plan: Plan) {
    this.#server = server;
    this.#commits = commits;
    this.#plan = plan;
  }

  /** Adds the Services that the first rounds remove, and waits until they are in force. */
  async prepare(): Promise<void> {
    while (this.#added - this.#removed < ROUNDS_UNTIL_REMOVED) {
      const { objects, address } = this.#next(KINDS[0]);
      this.#commits.await(address, () => {});
      await this.#server.apply(...objects);
    }
    await untilCommitted(this.#commits);
  }

  /**
   * Makes changes of all kinds in turn.
   *
   * @returns milliseconds from the message to the API server's process until the kernel's notification of the batch, by
   * kind
   * @throws Error when one is not committed
   */
  async run({ changes, perSecond }: Load): Promise<ReadonlyMap<string, readonly number[]>> {
    const latencies = new Map<string, number[]>(KINDS.map((kind) => [kind, []]));
    const start = performance.now();
    for (let number = 0; number < changes; number++) {
      const due = start + (1000 * number) / perSecond;
      if (due > performance.now()) await wait(due - performance.now());
      const kind = KINDS[number % KINDS.length] ?? KINDS[0];
      const { objects, address } = this.#next(kind);
      const reported = performance.now();
      this.#commits.await(address, (at) => latencies.get(kind)?.push(at - reported));
      void this.#server.apply(...objects);
    }
    await untilCommitted(this.#commits);
    return latencies;
  }

  #next(kind: (typeof KINDS)[number]): ServiceChange {
    const { services, endpoints } = this.#plan;
    switch (kind) {
      case "a Service added with its EndpointSlice": {
        const service = benchService(FIRST_NEW_SERVICE + this.#added++, endpoints);
        const objects = [serviceManifest(service), sliceManifest(service)].map(asStored);
        return { objects, address: service.endpoints[0] ?? "" };
      }
      case "an endpoint replaced": {
        const number = this.#replaced++;
        const of = benchService((number * 7919) % services, endpoints);
        const service = withFirstReplaced(of, FIRST_NEW_ENDPOINT + number);
        return { objects: [asStored(sliceManifest(service))], address: service.endpoints[0] ?? "" };
      }
      case "a Service removed": {
        const service = benchService(FIRST_NEW_SERVICE + this.#removed++, endpoints);
        const objects = [serviceManifest(service), sliceManifest(service)].map(asStored);
        return { objects: objects.map((object) => ({ ...object, isGone: true })), address: service.address };
      }
    }
  }
}
