import { setTimeout as pause } from "node:timers/promises";
import { familyOf, formatAddress, FAMILIES } from "../../../kernel/ip/address.ts";
import type { RawObject } from "../../apiserver/storage.ts";
import type { Cluster, ClusterPod } from "../../lab/cluster/cluster.ts";

/** The numbers of changes that {@link Churn} has made. */
export interface ChurnCounts {
  endpoints: number;
  policies: number;
  labels: number;
  /** Pods that were attached and detached again. */
  pods: number;
}

/** The objects that {@link Churn} changes, and those that it must not change. */
export interface ChurnParts {
  readonly cluster: Cluster;
  readonly service: { readonly name: string; readonly port: string; readonly targetPort: number };
  /** The servers of the Service, at least one of which stays an endpoint in each family. */
  readonly servers: readonly ClusterPod[];
  /** The nodes where pods come and go. */
  readonly nodes: readonly string[];
  readonly random: () => number;
  readonly perSecond: number;
}

/** The number of different policies beside those that stay. */
const POLICIES = 20;
const VARIANTS = 5;

/**
 * Changes a cluster `perSecond` times a second: endpoints, policies, labels of pods, and pods that are attached and
 * detached.
 */
export class Churn {
  readonly counts: ChurnCounts = { endpoints: 0, policies: 0, labels: 0, pods: 0 };
  readonly #parts: ChurnParts;
  #isEnding = false;
  readonly #running: Promise<unknown>;

  constructor(parts: ChurnParts) {
    this.#parts = parts;
    this.#running = Promise.all([this.#changes(), this.#visitors()]);
    // end() awaits the same promise and reports the error.
    this.#running.catch(() => {});
  }

  /** Ends the changes. @throws the error of a step that failed */
  async end(): Promise<ChurnCounts> {
    this.#isEnding = true;
    await this.#running;
    return this.counts;
  }

  get total(): number {
    const { endpoints, policies, labels, pods } = this.counts;
    return endpoints + policies + labels + pods;
  }

  async #changes(): Promise<void> {
    const { cluster, random, perSecond } = this.#parts;
    const start = performance.now();
    for (let done = 0; !this.#isEnding;) {
      if (this.total >= ((performance.now() - start) / 1000) * perSecond) {
        await pause(5);
        continue;
      }
      const kind = (["endpoints", "policies", "labels"] as const)[done++ % 3] ?? "endpoints";
      const objects = {
        endpoints: () => this.slices(),
        policies: () => [this.#policy()],
        labels: () => [this.#label()],
      };
      await cluster.server.apply(...objects[kind]());
      this.counts[kind]++;
      if (random() < 0.02) await pause(200 * random());
    }
  }

  async #visitors(): Promise<void> {
    const { cluster, nodes, random } = this.#parts;
    for (let number = 0; !this.#isEnding; number++) {
      const node = nodes[number % nodes.length] ?? "";
      const pod = await cluster.createPod({ name: `visitor-${number}`, labels: { app: "visitor" }, node });
      this.counts.pods++;
      await pause(200 * random());
      await cluster.deletePod(pod);
      this.counts.pods++;
    }
  }

  /** Returns the Service's slices, with some of the servers. */
  slices(): readonly RawObject[] {
    const { service, servers, random } = this.#parts;
    return FAMILIES.map((family) => {
      const all = servers.flatMap(({ addresses, nodeName }) =>
        addresses
          .filter((address) => familyOf(address) === family)
          .map((address) => ({ addresses: [formatAddress(address)], conditions: { ready: true }, nodeName })),
      );
      const some = all.filter(() => random() < 0.5);
      return {
        apiVersion: "discovery.k8s.io/v1",
        kind: "EndpointSlice",
        metadata: {
          name: `${service.name}-own-${family}`,
          namespace: "default",
          labels: { "kubernetes.io/service-name": service.name },
        },
        addressType: `IPv${family}`,
        ports: [{ name: service.port, protocol: "TCP", port: service.targetPort }],
        endpoints: some.length > 0 ? some : all.slice(0, 1),
      };
    });
  }

  /** Returns a policy for the servers that comes, goes or changes; it allows no existing pod to reach their port. */
  #policy(): RawObject {
    const { random } = this.#parts;
    const number = Math.floor(POLICIES * random());
    const from = [{ podSelector: { matchLabels: { variant: `v${Math.floor(VARIANTS * random())}` } } }];
    return {
      apiVersion: "networking.k8s.io/v1",
      kind: "NetworkPolicy",
      metadata: { name: `extra-${number}`, namespace: "default" },
      spec: {
        podSelector: { matchLabels: { app: "server" } },
        policyTypes: ["Ingress"],
        ingress: [{ from, ports: [{ protocol: "TCP", port: 9000 + number }] }],
      },
      ...(random() < 0.3 ? { isGone: true } : {}),
    };
  }

  /** Changes a label of one of the servers, which stays a server. */
  #label(): RawObject {
    const { servers, cluster, random } = this.#parts;
    const pod = servers[Math.floor(servers.length * random())];
    if (pod === undefined) throw new Error("no servers");
    return cluster.podObject(pod, { variant: `v${Math.floor(VARIANTS * random())}` });
  }
}
