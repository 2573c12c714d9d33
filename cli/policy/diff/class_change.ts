import { contentText } from "../../output/text.ts";
import type { ClusterNetworkPolicy, NetworkPolicy } from "../../../objects/model.ts";
import type { Direction, FlowEnd } from "../../../objects/semantics/policies/flow.ts";
import type { PolicyIndex } from "../../../objects/semantics/policies/policy_index.ts";
import type { DirectionProfile } from "../../../objects/semantics/policies/profile.ts";
import type { EndClass, Sides } from "./end_class.ts";

/** The parts of a class that differ between the two sides. */
export interface ClassChange {
  /** Whether the policies for what it sends, and for what it receives, differ. */
  readonly egress: boolean;
  readonly ingress: boolean;
  /** Whether something differs that policies match: its labels, those of its namespace, its addresses or its ports. */
  readonly self: boolean;
  /** Whether one of its ends is on another node, which matters only between pods and nodes. */
  readonly isMoved: boolean;
}

/**
 * Returns a function that compares a class on the two sides. Nothing changes between two unchanged classes, whatever
 * policies say about others: a verdict depends only on the source's egress rules, the destination's ingress rules and
 * the two ends. An end on one side only counts as changed in everything.
 */
export function classChanges(sides: Sides): (one: EndClass) => ClassChange {
  const [before, after] = [new Description(sides.before), new Description(sides.after)];
  return ({ ends }) => {
    const [{ before: old, after: young }] = ends;
    if (old === undefined || young === undefined) return { egress: true, ingress: true, self: true, isMoved: true };
    return {
      egress: before.rules(old, "egress") !== after.rules(young, "egress"),
      ingress: before.rules(old, "ingress") !== after.rules(young, "ingress"),
      self: before.self(old) !== after.self(young),
      isMoved: ends.some((end) => end.isShared === true || end.nodeBefore !== end.nodeAfter),
    };
  };
}

/** Describes one side in texts that are equal for equal things. */
class Description {
  readonly #index: PolicyIndex;
  readonly #profiles = new Map<DirectionProfile, string>();
  /** By key; keys of ClusterNetworkPolicies contain no "/". */
  readonly #policies: Readonly<Record<Direction, Map<string, string>>> = { egress: new Map(), ingress: new Map() };

  constructor(index: PolicyIndex) {
    this.#index = index;
  }

  rules(end: FlowEnd, direction: Direction): string {
    return end.type !== "pod" ? "" : contentText(this.#keysOf(end.key).map((key) => this.#rulesOf(key, direction)));
  }

  /** Returns the keys of a pod and of the others that have its addresses as well. */
  #keysOf(key: string): readonly string[] {
    const { pods, owners } = this.#index;
    const all = (pods.get(key)?.pod.addresses ?? []).flatMap((address) => owners.get(address) ?? []);
    const keys = all.flatMap((owner) => (owner.type === "pod" ? [owner.key] : []));
    return [...new Set([key, ...(keys.includes(key) ? keys : [])])];
  }

  #rulesOf(key: string, direction: Direction): string {
    const profile = this.#index.pods.get(key)?.subject?.profile[direction];
    if (profile === undefined) return "";
    const known = this.#profiles.get(profile);
    if (known !== undefined) return known;
    const { admin, isolating, baseline } = profile;
    const text = [admin, isolating, baseline]
      .map((policies) => policies.map(({ policy }) => this.#policy(policy, direction)).join("\n"))
      .join("\n\n");
    this.#profiles.set(profile, text);
    return text;
  }

  self(end: FlowEnd): string {
    if (end.type === "address") return "";
    if (end.type === "node") return contentText(this.#index.nodes.get(end.name));
    return contentText(this.#keysOf(end.key).map((key) => this.#selfOf(key)));
  }

  #selfOf(key: string): string {
    const entry = this.#index.pods.get(key);
    if (entry === undefined) return "";
    const { namespace, labels, addresses, ports, hostNetwork, nodeName } = entry.pod;
    if (entry.subject !== undefined) {
      return contentText([namespace, entry.subject.identity.namespaceLabels, labels, addresses, ports]);
    }
    const node = nodeName === undefined ? undefined : this.#index.nodes.get(nodeName);
    return contentText([hostNetwork, nodeName, addresses, node]);
  }

  #policy(policy: NetworkPolicy | ClusterNetworkPolicy, direction: Direction): string {
    const known = this.#policies[direction].get(policy.key);
    if (known !== undefined) return known;
    const text = contentText([policy.kind === "NetworkPolicy" ? policy.namespace : "", policy[direction]]);
    this.#policies[direction].set(policy.key, text);
    return text;
  }
}
