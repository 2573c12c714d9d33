import { setTimeout as wait } from "node:timers/promises";
import {
  type BenchService,
  benchService,
  NAMESPACE,
  serviceManifest,
  sliceManifest,
  withFirstReplaced,
} from "../objects/services.ts";
import type { AddressCommits } from "../daemon/address_commits.ts";
import type { ApiClient, ApiRequest } from "./api_client.ts";
import { monotonicOffset } from "./monotonic.ts";
import type { SizedPlan } from "./plan.ts";

/** The first numbers above every Service of the cluster: no other Service has the addresses of these. */
const FIRST_NEW_SERVICE = 50_000;
const FIRST_NEW_ENDPOINT = 100_000;
const SERVICES = `/api/v1/namespaces/${NAMESPACE}/services`;
const SLICES = `/apis/discovery.k8s.io/v1/namespaces/${NAMESPACE}/endpointslices`;
const REQUESTS_AT_ONCE = 24;
const LIMIT_MILLISECONDS = 120_000;
/** The share of changes that the API server may refuse. */
const MOST_REFUSED = 0.2;
/**
 * A pause longer than the second that kube-proxy waits between two syncs, so that no change waits for the previous one.
 */
const PAUSE_MILLISECONDS = 1200;

export const CHANGE_KINDS = ["a Service added with its EndpointSlice", "an endpoint replaced"] as const;
export type ChangeKind = (typeof CHANGE_KINDS)[number];

interface Change {
  readonly requests: readonly ApiRequest[];
  /** An address that is in the kernel once the change is in force. */
  readonly address: string;
}

/** Fills an API server with a plan's Services, and changes them. Every change has addresses that no other has. */
export class ServiceChanges {
  readonly #client: ApiClient;
  readonly #plan: SizedPlan;
  #added = 0;
  #removed = 0;
  #replaced = 0;
  #refused = 0;

  constructor(client: ApiClient, plan: SizedPlan) {
    this.#client = client;
    this.#plan = plan;
  }

  /** Creates all Services of the plan. */
  async fill(): Promise<void> {
    const object = { apiVersion: "v1", kind: "Namespace", metadata: { name: NAMESPACE } };
    await this.#client.must([{ method: "POST", path: "/api/v1/namespaces", object }]);
    const { services, endpoints } = this.#plan;
    const requests = Array.from({ length: services }, (_, number) => creations(benchService(number, endpoints))).flat();
    await this.#client.must(requests, REQUESTS_AT_ONCE);
  }

  /** Removes all Services that were added, so that the next program starts with the same number as this one. */
  async removeAdded(): Promise<void> {
    const requests: ApiRequest[] = [];
    while (this.#removed < this.#added) {
      const { name } = benchService(FIRST_NEW_SERVICE + this.#removed++, this.#plan.endpoints);
      requests.push(...[SERVICES, SLICES].map((list) => ({ method: "DELETE" as const, path: `${list}/${name}` })));
    }
    // An addition that was refused has nothing to remove.
    await this.#client.send(requests, REQUESTS_AT_ONCE);
  }

  /**
   * Makes changes of one kind, each some time after the previous one is in force.
   *
   * @returns milliseconds from the API server's answer to the last request until the kernel's notification of the
   * commit; 0 when the change was in force before the answer had arrived
   */
  async oneAtATime(kind: ChangeKind, count: number, commits: AddressCommits): Promise<readonly number[]> {
    const latencies: number[] = [];
    for (let number = 0; number < count; number++) {
      await wait(PAUSE_MILLISECONDS);
      this.#make(kind, commits, latencies);
      await this.#untilInForce(commits, latencies, number + 1);
    }
    return this.#counted(latencies, count);
  }

  /** Makes changes of all kinds in turn at the plan's rate. @returns as {@link oneAtATime}, of all of them */
  async atARate(commits: AddressCommits): Promise<readonly number[]> {
    const { seconds, changesPerSecond } = this.#plan;
    const count = seconds * changesPerSecond;
    const latencies: number[] = [];
    const start = performance.now();
    for (let number = 0; number < count; number++) {
      const early = start + (1000 * number) / changesPerSecond - performance.now();
      if (early > 0) await wait(early);
      this.#make(CHANGE_KINDS[number % CHANGE_KINDS.length] ?? CHANGE_KINDS[0], commits, latencies);
    }
    await this.#untilInForce(commits, latencies, count);
    return this.#counted(latencies, count);
  }

  /**
   * Makes one change, and adds its latency when the client has the answer and the kernel has the change. The latency
   * begins with the answer, since a busy machine's API server may take longer for a write than either program takes for
   * the change.
   */
  #make(kind: ChangeKind, commits: AddressCommits, latencies: number[]): void {
    const { requests, address } = this.#next(kind);
    const offset = monotonicOffset();
    const committed = new Promise<number>((resolve) => commits.await(address, resolve));
    const outcome = this.#client.must(requests);
    void Promise.all([committed, outcome]).then(
      ([at, { answered }]) => latencies.push(Math.max(0, at + offset - answered)),
      () => this.#refused++,
    );
  }

  /** Waits until all changes are in force. @throws Error when it takes too long or notifications were lost */
  async #untilInForce(commits: AddressCommits, latencies: readonly number[], count: number): Promise<void> {
    const deadline = performance.now() + LIMIT_MILLISECONDS;
    while (latencies.length + this.#refused < count) {
      if (commits.lost.length > 0) throw new Error(commits.lost.slice(0, 3).join("; "));
      if (performance.now() > deadline) throw new Error(`not in the kernel: ${commits.missing.slice(0, 5).join(", ")}`);
      await wait(5);
    }
  }

  /**
   * Returns the latencies of changes that the API server has accepted. On a busy machine it answers some writes with a
   * timeout.
   *
   * @throws Error when it has refused too many
   */
  #counted(latencies: readonly number[], count: number): readonly number[] {
    const refused = this.#refused;
    this.#refused = 0;
    if (refused > MOST_REFUSED * count) throw new Error(`the API server has refused ${refused} of ${count} changes`);
    return latencies;
  }

  #next(kind: ChangeKind): Change {
    const { services, endpoints } = this.#plan;
    if (kind === "a Service added with its EndpointSlice") {
      const service = benchService(FIRST_NEW_SERVICE + this.#added++, endpoints);
      return { requests: creations(service), address: service.endpoints[0] ?? "" };
    }
    const number = this.#replaced++;
    const service = withFirstReplaced(benchService((number * 7919) % services, endpoints), FIRST_NEW_ENDPOINT + number);
    const object = sliceManifest(service);
    const path = `${SLICES}/${service.name}`;
    return { requests: [{ method: "PUT", path, object }], address: service.endpoints[0] ?? "" };
  }
}

function creations(service: BenchService): readonly ApiRequest[] {
  return [
    { method: "POST", path: SERVICES, object: serviceManifest(service) },
    { method: "POST", path: SLICES, object: sliceManifest(service) },
  ];
}
