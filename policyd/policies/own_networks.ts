import type { Address } from "../../kernel/ip/address.ts";
import { type AddressRange, isInRanges, rangeOf, unitedRanges, withoutRanges } from "../../kernel/ip/ranges.ts";
import type { AttachmentRegistry } from "../attachments/registry.ts";
import type { ObjectChange, Pod } from "../../objects/model.ts";
import type { NodeJudge, VerdictReader } from "../../objects/nodes/node_judge.ts";
import type { ObjectConsumer, PodGate } from "../component.ts";
import type { Ruleset } from "../ruleset/ruleset.ts";
import { ownRangeElement } from "./compile/table_elements.ts";

export interface OwnNetworksParts {
  /** The ruleset with the table of policies. Its owner starts and stops it. */
  readonly ruleset: Pick<Ruleset, "claim">;
  readonly nodeName: string;
  /** Checks the Nodes, and knows this node's pod CIDRs. */
  readonly judge: NodeJudge;
  /** Our attachments; undefined if all pods are ours. */
  readonly attachments?: Pick<AttachmentRegistry, "values"> | undefined;
}

/**
 * Claims the networks of this node's pods for the rules of policies, so that no pod is reached
 * before it is known (POL-09).
 *
 * A Pod that runs here without an attachment of ours belongs to a former plugin. It never becomes known, so its
 * addresses are excluded: otherwise its own node could not reach it through a Service (FOREIGN-03).
 */
export class OwnNetworks implements ObjectConsumer, PodGate {
  readonly #parts: OwnNetworksParts;
  readonly #readVerdict: VerdictReader;
  /** Addresses of the Pods that run on this node, by their keys. */
  readonly #pods = new Map<string, readonly Address[]>();

  constructor(parts: OwnNetworksParts) {
    this.#parts = parts;
    this.#readVerdict = parts.judge.reader();
    this.#claim();
  }

  apply(changes: readonly ObjectChange[]): void {
    const hasNewNetworks = this.#readVerdict().has(this.#parts.nodeName);
    const hasNewPods = changes.map((change) => this.#followPod(change)).includes(true);
    if (hasNewNetworks || hasNewPods) this.#claim();
  }

  /** Returns whether a Pod of this node came, changed or went. */
  #followPod(change: ObjectChange): boolean {
    if (change.kind !== "Pod") return false;
    const addresses = change.type === "set" && change.object.kind === "Pod" ? this.#addressesHere(change.object) : [];
    if (addresses.length === 0) return this.#pods.delete(change.key);
    this.#pods.set(change.key, addresses);
    return true;
  }

  #addressesHere({ nodeName, hostNetwork, phase, isTerminating, addresses }: Pod): readonly Address[] {
    const isHere = nodeName === this.#parts.nodeName && !hostNetwork;
    return isHere && phase === "Running" && !isTerminating ? addresses : [];
  }

  async register(): Promise<void> {
    this.#claim();
  }

  #claim(): void {
    const { ruleset, judge } = this.#parts;
    const networks = unitedRanges(judge.ownCidrs.map(rangeOf));
    const wanted = withoutRanges(networks, this.#formerPods());
    ruleset.claim("own pod networks", wanted.map(ownRangeElement), "urgent");
  }

  #formerPods(): readonly AddressRange[] {
    const { attachments } = this.#parts;
    if (attachments === undefined) return [];
    const ours = new Set([...attachments.values()].flatMap((one) => one.addresses.map(({ address }) => address)));
    const others = [...this.#pods.values()].flat().filter((address) => !ours.has(address));
    return others.map((address) => ({ first: address, last: address }));
  }
}

/** Returns a test for addresses that a Node gives to pods, or will give. */
export function inPodNetworks(judge: NodeJudge): (address: Address) => boolean {
  const changedNodes = judge.reader();
  let ranges = unitedRanges(judge.ownCidrs.map(rangeOf));
  return (address) => {
    if (changedNodes().size > 0) {
      const ofNodes = [...judge.judged.nodes.values()].flatMap((node) => node.podCidrs);
      ranges = unitedRanges([...judge.ownCidrs, ...ofNodes].map(rangeOf));
    }
    return isInRanges(ranges, address);
  };
}
