import { formatAddress } from "../../kernel/ip/address.ts";
import type { Cidr } from "../../kernel/ip/cidr.ts";
import { formatCidr } from "../../kernel/ip/cidr.ts";
import type { ObjectChange } from "../source/object_source.ts";
import type { JudgedNodes, JudgeOptions } from "./judged_nodes.ts";
import { internalAddresses, judgeNodes } from "./judged_nodes.ts";
import type { Node, ServiceCidr } from "./model.ts";

/** The Nodes as they come and go, judged (judgeNodes) when somebody asks and something that counts has changed. */
export class NodeJudge {
  readonly #options: Omit<JudgeOptions, "earlier">;
  readonly #nodes = new Map<string, Node>();
  readonly #serviceCidrs = new Map<string, ServiceCidr>();
  #judged: JudgedNodes | undefined;
  #isCurrent = false;
  #isSettled = false;

  /** @param options with the ranges of Services that are none of ServiceCIDR objects */
  constructor(options: Omit<JudgeOptions, "earlier">) {
    this.#options = options;
  }

  /** @returns whether the verdict may be another */
  apply(changes: readonly ObjectChange[]): boolean {
    let hasChanged = false;
    for (const change of changes) {
      const object = change.type === "set" ? change.object : undefined;
      if (change.kind === "Node") {
        const before = textOf(this.#nodes.get(change.key));
        if (object?.kind === "Node") this.#nodes.set(change.key, object);
        else this.#nodes.delete(change.key);
        hasChanged ||= before !== textOf(this.#nodes.get(change.key));
      } else if (change.kind === "ServiceCIDR") {
        if (object?.kind === "ServiceCIDR") this.#serviceCidrs.set(change.key, object);
        else this.#serviceCidrs.delete(change.key);
        hasChanged = true;
      }
    }
    if (hasChanged) this.#isCurrent = false;
    return hasChanged;
  }

  /** All objects have been read: what is believed from now on stays with whom it is. Before, the order of reading would decide. */
  synced(): void {
    this.#isSettled = true;
  }

  /** Of Services, each once. */
  get serviceCidrs(): readonly Cidr[] {
    const ranges = [
      ...(this.#options.serviceCidrs ?? []),
      ...[...this.#serviceCidrs.values()].flatMap(({ cidrs }) => cidrs),
    ];
    return [...new Map(ranges.map((cidr) => [formatCidr(cidr), cidr])).values()];
  }

  /** The verdict: the same one until something changes. */
  get judged(): JudgedNodes {
    if (this.#judged !== undefined && this.#isCurrent) return this.#judged;
    const earlier = this.#isSettled ? this.#judged : undefined;
    const { serviceCidrs } = this;
    this.#judged = judgeNodes(this.#nodes.values(), { ...this.#options, serviceCidrs, earlier });
    this.#isCurrent = true;
    return this.#judged;
  }
}

/** All that counts of a node: it changes every few seconds in other ways. */
function textOf(node: Node | undefined): string {
  if (node === undefined) return "";
  const addresses = internalAddresses(node).map(formatAddress);
  return [node.name, ...node.podCidrs.map(formatCidr), ...addresses].join();
}
