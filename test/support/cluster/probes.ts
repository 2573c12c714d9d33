import assert from "node:assert/strict";
import { setTimeout as pause } from "node:timers/promises";
import { type Address, type Family, familyOf, formatAddress, FAMILIES } from "../../../kernel/ip/address.ts";
import type { Cluster, ClusterPod } from "../../lab/cluster/cluster.ts";
import type { ClusterNode } from "../../lab/cluster/cluster_node.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import { type Flow, Prober, type ProbeResult } from "../../lab/probe/prober.ts";
import type { DaemonProcess } from "../daemon/policyd.ts";
import { ours } from "../routes/route_lab.ts";

export const PORT = 8080;
const PATIENCE_MILLISECONDS = 60_000;
const ANSWER_MILLISECONDS = 500;

/**
 * Makes connections in a cluster: pods and nodes answer on {@link PORT} by TCP, and the prober sees which one answered.
 */
export class ClusterProbes {
  readonly prober: Prober;
  readonly #cluster: Cluster;

  constructor(cluster: Cluster) {
    this.#cluster = cluster;
    this.prober = new Prober(cluster.lab);
  }

  /** Makes a pod or a node answer at its addresses. */
  listen(at: ClusterPod | ClusterNode): void {
    for (const family of FAMILIES) {
      this.prober.listen("tcp", { namespace: namespaceOf(at), address: addressOf(at, family), port: PORT });
    }
  }

  /**
   * Probes until all are answered. @throws AssertionError with the flows that are not answered and the state of the
   * nodes
   */
  async untilReached(flows: readonly Flow[]): Promise<readonly ProbeResult[]> {
    return await this.untilAll(flows, ({ reached }) => reached, "not reached");
  }

  /** Probes until none is answered any more, whether refused or lost. */
  async untilRefused(flows: readonly Flow[]): Promise<readonly ProbeResult[]> {
    return await this.untilAll(flows, ({ reached }) => !reached, "reached");
  }

  /** Probes until `holds` is true for each result. */
  async untilAll(
    flows: readonly Flow[],
    holds: (result: ProbeResult) => boolean,
    otherwise: string,
  ): Promise<readonly ProbeResult[]> {
    for (const deadline = performance.now() + PATIENCE_MILLISECONDS; ; await pause(50)) {
      const results = await this.prober.run(flows, { timeoutMilliseconds: ANSWER_MILLISECONDS });
      const wrong = results.filter((result) => !holds(result));
      if (wrong.length === 0) return results;
      if (performance.now() < deadline) continue;
      const words = wrong.map(
        ({ flow: { from, to }, why, seenBy }) =>
          `${from.name} to ${formatAddress(to.address)} ${to.port}: ${otherwise} ${why} ${seenBy?.name ?? ""}`,
      );
      assert.fail(`${words.join("\n")}\n${describeNodes(this.#cluster)}`);
    }
  }

  /** Connects to a frontend until exactly these pods answer: in the last round each of them did at least once. */
  async untilAnsweredBy(
    from: LabNamespace,
    to: { readonly address: Address; readonly port: number },
    pods: readonly ClusterPod[],
  ): Promise<void> {
    const expected = pods.map(({ pod }) => pod.name).sort();
    const flows = Array.from({ length: 8 * Math.max(1, pods.length) }, (): Flow => ({ protocol: "tcp", from, to }));
    for (const deadline = performance.now() + PATIENCE_MILLISECONDS; ; await pause(50)) {
      const results = await this.prober.run(flows, { timeoutMilliseconds: ANSWER_MILLISECONDS });
      const found = [
        ...new Set(results.map(({ reached, seenBy, why }) => (reached ? (seenBy?.name ?? "?") : why))),
      ].sort();
      if (found.join() === expected.join()) return;
      assert.ok(
        performance.now() < deadline,
        `${from.name} to ${formatAddress(to.address)} ${to.port}: answered by ${found.join()}; expected ${expected.join()}\n` +
          describeNodes(this.#cluster),
      );
    }
  }
}

/** Returns a connection to a pod or a node. */
export function flowTo(from: ClusterPod | ClusterNode, to: ClusterPod | ClusterNode, family: Family): Flow {
  return { protocol: "tcp", from: namespaceOf(from), to: { address: addressOf(to, family), port: PORT } };
}

/** Returns the address of a pod or a node. @throws Error when it has no address of this family */
export function addressOf(of: ClusterPod | ClusterNode, family: Family): Address {
  const address = "machine" in of ? of.machine.addresses[family] : of.addresses.find((one) => familyOf(one) === family);
  if (address === undefined) throw new Error(`${of.name}: no address of IPv${family}`);
  return address;
}

export function namespaceOf(of: ClusterPod | ClusterNode): LabNamespace {
  return "machine" in of ? of.namespace : of.pod;
}

/** Describes the state of all nodes and the status of their daemons, for a failure. */
export function describeNodes(cluster: Cluster): string {
  return cluster.nodes
    .map(({ name, namespace, daemon }) => {
      const { problems, objects } = statusOf(daemon);
      const lines = [
        JSON.stringify(objects),
        ...problems,
        ours(namespace),
        ...daemon.log().trim().split("\n").slice(-10),
      ];
      return `${name}:\n${lines.join("\n")}`;
    })
    .join("\n");
}

/** Returns the status of a daemon, or for one that has ended the reason. */
function statusOf(daemon: DaemonProcess): { readonly problems: readonly string[]; readonly objects: unknown } {
  try {
    return daemon.status();
  } catch (error) {
    return { problems: [error instanceof Error ? error.message : String(error)], objects: {} };
  }
}
