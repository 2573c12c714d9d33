import type { ObjectConsumer } from "../component.ts";
import type { ObjectChange } from "../../objects/model.ts";

/**
 * Decides whether this node should get new connections, as kube-proxy does (ProxyHealthServer.SyncNode): not if its
 * Node object is deleted, is being deleted, or is about to be by the cluster autoscaler. The node is eligible until the
 * object says otherwise. An unschedulable node stays eligible.
 */
export class NodeEligibility implements ObjectConsumer {
  readonly #nodeName: string;
  readonly #problems: () => readonly string[];
  #isEligible = true;

  /** @param problems of the health servers, for the status */
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

  problems(): readonly string[] {
    return this.#problems();
  }
}
