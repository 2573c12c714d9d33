import { setTimeout as wait } from "node:timers/promises";
import type { ApiServerProcess } from "../../apiserver/process.ts";
import type { RawObject } from "../../apiserver/storage.ts";
import { type BenchPod, pertinentPod, podManifest, relabelled } from "../objects/policies.ts";
import { benchService, sliceManifest, withFirstReplaced } from "../objects/services.ts";
import type { AddressCommits } from "./address_commits.ts";
import { asStored } from "./cluster.ts";
import type { Plan } from "./plan.ts";

const PATIENCE_MILLISECONDS = 60_000;
/** The first numbers above everything of the cluster: nothing else has the addresses of these. */
const FIRST_NEW_POD = 100_000;
const FIRST_NEW_ENDPOINT = 100_000;
const ROUNDS_UNTIL_RELABELLED = 100;
/** A number so large that the daemon has long written an object when it is removed, even on a busy machine. */
const ROUNDS_UNTIL_REMOVED = 300;

/** The kinds of changes, each made in turn. */
const KINDS = [
  "a pod added elsewhere",
  "an endpoint replaced",
  "a pod relabelled elsewhere",
  "a pod removed elsewhere",
] as const;

type Kind = (typeof KINDS)[number];

/** The number of changes, and their rate. */
export interface Load {
  readonly changes: number;
  readonly perSecond: number;
}

interface Change {
  readonly objects: readonly RawObject[];
  /** The address whose element in the kernel shows that the change is in force. */
  readonly address: string;
}

/** Changes pods elsewhere and endpoints at a steady rate. Each change has addresses of its own. */
export class SteadyChanges {
  readonly #server: ApiServerProcess;
  readonly #commits: AddressCommits;
  readonly #plan: Plan;
  readonly #made = new Map<Kind, number>();

  constructor(server: ApiServerProcess, commits: AddressCommits, plan: Plan) {
    this.#server = server;
    this.#commits = commits;
    this.#plan = plan;
  }

  /** Adds the objects that the first rounds change and remove, and waits until they are in force. */
  async prepare(): Promise<void> {
    for (let round = 0; round < ROUNDS_UNTIL_REMOVED; round++) {
      const { objects, address } = this.#next("a pod added elsewhere");
      this.#commits.await(address, () => {});
      await this.#server.apply(...objects);
    }
    await this.#untilCommitted();
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
      const kind = KINDS[number % KINDS.length] ?? "an endpoint replaced";
      const { objects, address } = this.#next(kind);
      const reported = performance.now();
      this.#commits.await(address, (at) => latencies.get(kind)?.push(at - reported));
      void this.#server.apply(...objects);
    }
    await this.#untilCommitted();
    return latencies;
  }

  /** Waits until all awaited changes are committed. @throws Error when they are not */
  async #untilCommitted(): Promise<void> {
    const { missing, lost } = this.#commits;
    const deadline = performance.now() + PATIENCE_MILLISECONDS;
    while (this.#commits.missing.length > 0 && lost.length === 0 && performance.now() < deadline) await wait(10);
    if (this.#commits.missing.length > 0 || lost.length > 0) {
      throw new Error(`not committed: ${missing.slice(0, 5).join(", ")}; ${lost.join(", ")}`);
    }
  }

  /** Returns the next change of a kind; a pod that is relabelled or removed was added rounds before. */
  #next(kind: Kind): Change {
    const { services, endpoints } = this.#plan;
    const number = this.#made.get(kind) ?? 0;
    this.#made.set(kind, number + 1);
    switch (kind) {
      case "a pod added elsewhere":
        return podChange(pertinentPod(FIRST_NEW_POD + number));
      case "a pod relabelled elsewhere":
        return podChange(relabelled(pertinentPod(FIRST_NEW_POD + ROUNDS_UNTIL_RELABELLED + number)));
      case "a pod removed elsewhere":
        return podChange(relabelled(pertinentPod(FIRST_NEW_POD + number)), { isGone: true });
      case "an endpoint replaced": {
        const of = benchService((number * 7919) % services, endpoints);
        const service = withFirstReplaced(of, FIRST_NEW_ENDPOINT + number);
        return { objects: [asStored(sliceManifest(service))], address: service.endpoints[0] ?? "" };
      }
    }
  }
}

function podChange(pod: BenchPod, further: RawObject = {}): Change {
  return { objects: [{ ...asStored(podManifest(pod)), ...further }], address: pod.address4 };
}
