import type { AddressRange } from "../../../kernel/ip/ranges.ts";
import type { LabelSelector, Protocol } from "../../../objects/model.ts";

/** The direction in which a pod is evaluated: packets it sends, or packets it receives. */
export type Direction = "egress" | "ingress";
export const DIRECTIONS: readonly Direction[] = ["egress", "ingress"];

/**
 * Everything that the policies of one direction say about the pods they select, in the order of evaluation: a value
 * that is printed for the kernel (`profile_chain.ts`) and by which existing flows are evaluated (`profile_verdict.ts`).
 *
 * Pods with the same policies share one profile.
 */
export interface Profile {
  readonly direction: Direction;
  /** The name in the kernel: 24 hexadecimal digits of a hash of all else, so the profile of a key never changes. */
  readonly key: string;
  /** The first rule that matches counts; "pass" continues after the tier. */
  readonly admin: readonly ProfileRule[];
  /** Undefined if no NetworkPolicy isolates the pods in this direction. */
  readonly isolation: Isolation | undefined;
  /** The isolation by policies with the annotation drawbridge.dev/shadow; undefined if others already isolate. */
  readonly shadow: Isolation | undefined;
  /** Evaluated if nothing isolates. */
  readonly baseline: readonly ProfileRule[];
}

/** The profiles of a pod in each direction; undefined if no policy selects it. */
export type ProfilesByDirection = Readonly<Record<Direction, Profile | undefined>>;

/** The traffic that NetworkPolicies allow: the union of their rules, and nothing else. */
export interface Isolation {
  /** Keys of the policies that isolate, in order; at least one. */
  readonly policies: readonly string[];
  /** All with the action "allow", in the order of the policies' keys and of their rules. */
  readonly rules: readonly ProfileRule[];
  /** Keys of the policies that have no rules here, since together they would have too many (POL-73). */
  readonly omitted: readonly string[];
}

export interface ProfileRule {
  /** Undefined means everyone, an empty list nobody. */
  readonly peers: readonly PeerGroup[] | undefined;
  /** Undefined means all traffic including ICMP, an empty list none. */
  readonly ports: readonly PortGroup[] | undefined;
  readonly action: "allow" | "deny" | "pass";
  readonly origin: RuleOrigin;
}

/** The place where a rule was written. */
export interface RuleOrigin {
  readonly kind: "NetworkPolicy" | "ClusterNetworkPolicy";
  /** The policy's key. */
  readonly policy: string;
  /** Its place in the policy's list of this direction, from 0. */
  readonly index: number;
}

/** The possible peers. Groups with the same key are one set in the kernel. */
export type PeerGroup = PodGroup | NodeGroup | RangeGroup | NameGroup;

/** The pods that selectors select, by their present labels. */
export interface PodGroup {
  readonly type: "pods";
  readonly key: string;
  /** The only namespace it selects in; undefined if `namespaceSelector` decides. */
  readonly namespace: string | undefined;
  readonly namespaceSelector: LabelSelector | undefined;
  /** Undefined selects every pod. */
  readonly podSelector: LabelSelector | undefined;
}

/** The addresses of the nodes that a selector selects. */
export interface NodeGroup {
  readonly type: "nodes";
  readonly key: string;
  readonly selector: LabelSelector;
}

/** Addresses in prefixes without the exceptions: sorted ranges that neither overlap nor touch, of both families. */
export interface RangeGroup {
  readonly type: "ranges";
  readonly key: string;
  readonly ranges: readonly AddressRange[];
}

/** The addresses that a pod knows by domain names, since it asked for them; only for egress. */
export interface NameGroup {
  readonly type: "names";
  readonly key: string;
  /** Sorted, each once. */
  readonly names: readonly string[];
}

/** The destination's ports. */
export type PortGroup =
  /** From `first` to `last`, both included; 0 to 65535 is every port. */
  | { readonly type: "range"; readonly protocol: Protocol; readonly first: number; readonly last: number }
  /** The ports that the destination's pod gives this name, of any protocol if it is undefined. */
  | { readonly type: "name"; readonly protocol: Protocol | undefined; readonly name: string };
