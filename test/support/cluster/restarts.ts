import { setTimeout as pause } from "node:timers/promises";
import { NftablesSocket } from "../../../kernel/nftables/socket.ts";
import type { ClusterNode } from "../../lab/cluster/cluster_node.ts";
import { until } from "../until.ts";

/** The number of batches after which a started daemon has taken over the tables and made some changes. */
const BATCHES = 2;
const LONGEST_PAUSE_MILLISECONDS = 300;

/** Ends and starts the daemons of nodes while objects of the cluster change all the time. */
export class Restarts {
  readonly #kernels: ReadonlyMap<ClusterNode, NftablesSocket>;
  readonly #random: () => number;

  constructor(nodes: readonly ClusterNode[], random: () => number) {
    this.#random = random;
    this.#kernels = new Map(
      nodes.map((node) => [node, node.namespace.inside(() => new NftablesSocket(node.namespace.calls))]),
    );
  }

  /**
   * Ends a node's daemon and starts it again, with pauses of random length.
   *
   * @param isSettled waits first until the daemon has made some changes; otherwise it may still be starting
   * @param bundle of the new daemon
   */
  async replace(node: ClusterNode, signal: NodeJS.Signals, isSettled = true, bundle?: string): Promise<void> {
    if (isSettled) await this.untilChanged(node);
    await pause(LONGEST_PAUSE_MILLISECONDS * this.#random());
    await node.stopDaemon(signal);
    await pause(LONGEST_PAUSE_MILLISECONDS * this.#random());
    node.startDaemon(bundle);
    await node.daemon.statusWhen(({ isSynced }) => isSynced, "synced");
  }

  /**
   * Replaces the daemon by another build and then by the first one again, as a rollout does, and checks it by the
   * versions of the node's tables.
   */
  async upgradeAndDowngrade(node: ClusterNode, bundle: string): Promise<void> {
    const before = schemasOf(node);
    await this.replace(node, "SIGTERM", true, bundle);
    await until(
      () => schemasOf(node).length === before.length && schemasOf(node).every((one) => !before.includes(one)),
      () => `upgraded: ${schemasOf(node).join()}; before ${before.join()}`,
    );
    await this.replace(node, "SIGTERM");
    await until(
      () => schemasOf(node).join() === before.join(),
      () => `downgraded: ${schemasOf(node).join()}; expected ${before.join()}`,
    );
  }

  /** Waits until the daemons of these nodes, or of all nodes when none is given, have programmed something. */
  async untilChanged(...nodes: readonly ClusterNode[]): Promise<void> {
    for (const node of nodes.length === 0 ? this.#kernels.keys() : nodes) {
      const generation = (): number => this.#kernels.get(node)?.generation() ?? 0;
      const goal = generation() + BATCHES;
      await until(
        () => generation() >= goal,
        () => `${node.name}: nothing changes\n${node.daemon.log()}`,
      );
    }
  }

  close(): void {
    for (const kernel of this.#kernels.values()) kernel.close();
  }
}

/** Returns the versions of our tables' schemas, in their order. */
function schemasOf({ namespace }: ClusterNode): readonly string[] {
  return namespace.ruleset().match(/schema-[0-9a-f]{16}/g) ?? [];
}
