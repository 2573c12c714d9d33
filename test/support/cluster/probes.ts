import assert from "node:assert/strict";
import { setTimeout as pause } from "node:timers/promises";
import type { Address, Family } from "../../../kernel/ip/address.ts";
import { familyOf, formatAddress } from "../../../kernel/ip/address.ts";
import type { Cluster, ClusterPod } from "../../lab/cluster/cluster.ts";
import type { ClusterNode } from "../../lab/cluster/cluster_node.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import type { Flow, ProbeResult } from "../../lab/probe/prober.ts";
import { Prober } from "../../lab/probe/prober.ts";
import type { DaemonProcess } from "../policyd.ts";
import { ours } from "../routes/route_lab.ts";

export const FAMILIES = [4, 6] as const;
export const PORT = 8080;
const PATIENCE_MILLISECONDS = 60_000;
const ANSWER_MILLISECONDS = 500;

/** Connections in a cluster: pods and nodes answer on {@link PORT} by TCP, and who answered is known. */
export class ClusterProbes {
  readonly prober: Prober;
  readonly #cluster: Cluster;

  constructor(cluster: Cluster) {
    this.#cluster = cluster;
    this.prober = new Prober(cluster.lab.calls);
  }

  /** Has a pod or a node answer at its addresses. */
  listen(at: ClusterPod | ClusterNode): void {
    for (const family of FAMILIES) {
      this.prober.listen("tcp", { namespace: namespaceOf(at), address: addressOf(at, family), port: PORT });
    }
  }

  /** Probes until all are answered. @throws AssertionError with those that are not and what the nodes have */
  async untilReached(flows: readonly Flow[]): Promise<readonly ProbeResult[]> {
    return await this.untilAll(flows, ({ reached }) => reached, "not reached");
  }

  /** Probes until none is answered any more; refused or lost is the same. */
  async untilRefused(flows: readonly Flow[]): Promise<readonly ProbeResult[]> {
    return await this.untilAll(flows, ({ reached }) => !reached, "reached");
  }

  /** Probes until something holds for each result. */
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

  /** Asks a frontend until exactly these pods have answered, each at least once in the last round. */
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

  close(): void {
    this.prober.close();
  }
}

/** A connection to a pod or a node. */
export function flowTo(from: ClusterPod | ClusterNode, to: ClusterPod | ClusterNode, family: Family): Flow {
  return { protocol: "tcp", from: namespaceOf(from), to: { address: addressOf(to, family), port: PORT } };
}

/** @throws Error when it has none of this family */
export function addressOf(of: ClusterPod | ClusterNode, family: Family): Address {
  const address = "machine" in of ? of.machine.addresses[family] : of.addresses.find((one) => familyOf(one) === family);
  if (address === undefined) throw new Error(`${of.name}: no address of IPv${family}`);
  return address;
}

export function namespaceOf(of: ClusterPod | ClusterNode): LabNamespace {
  return "machine" in of ? of.namespace : of.pod;
}

/** Waits for something to hold. @throws AssertionError with what is there instead */
export async function until(holds: () => boolean | Promise<boolean>, otherwise: () => string): Promise<void> {
  for (const deadline = performance.now() + PATIENCE_MILLISECONDS; !(await holds()); await pause(25)) {
    if (performance.now() > deadline) assert.fail(otherwise());
  }
}

/** What all nodes have and their daemons say, for a failure. */
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

/** The status of a daemon; of one that has ended what there is to say. */
function statusOf(daemon: DaemonProcess): { readonly problems: readonly string[]; readonly objects: unknown } {
  try {
    return daemon.status();
  } catch (error) {
    return { problems: [error instanceof Error ? error.message : String(error)], objects: {} };
  }
}
