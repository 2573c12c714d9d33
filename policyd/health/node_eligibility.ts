import type { Dataplane } from "../dataplane.ts";
import type { ObjectChange } from "../source/object_source.ts";

/**
 * Whether this node is to get new connections, as kube-proxy has it (ProxyHealthServer.SyncNode): not while its Node
 * object is being deleted, has been, or the cluster autoscaler is about to. Eligible until the object says otherwise; that
 * nothing more is scheduled here says nothing about connections.
 */
export class NodeEligibility implements Dataplane {
  readonly #nodeName: string;
  readonly #problems: () => readonly string[];
  #isEligible = true;

  /** @param problems of whoever tells it, for the status */
  constructor(nodeName: string, problems: () => readonly string[] = () => []) {
    this.#nodeName = nodeName;
    this.#problems = problems;
  }

  get isEligible(): boolean {
    return this.#isEligible;
  }

  apply(changes: readonly ObjectChange[]): void {
    for (const change of changes) {
      if (change.kind !== "Node" || change.key !== this.#nodeName) continue;
      this.#isEligible = change.type === "set" && change.object.kind === "Node" && !change.object.isLeaving;
    }
  }

  synced(): void {}

  async register(): Promise<void> {}

  async unregister(): Promise<void> {}

  problems(): readonly string[] {
    return this.#problems();
  }

  async stop(): Promise<void> {}
}
