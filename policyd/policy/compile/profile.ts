import type { AddressRange } from "../../../kernel/ip/ranges.ts";
import type { LabelSelector, Protocol } from "../../cluster/model.ts";

/** The direction a pod is judged in: what it sends, or what it is sent. */
export type Direction = "egress" | "ingress";
export const DIRECTIONS: readonly Direction[] = ["egress", "ingress"];

/**
 * All that the policies of one direction say about the pods they select, in the order in which it is asked: a value that
 * is printed for the kernel (`profile_chain.ts`) and answers for flows there are already (`judge.ts`).
 *
 * Pods with the same policies share one profile.
 */
export interface Profile {
  readonly direction: Direction;
  /** Names it in the kernel: 24 hexadecimal digits of a hash of all the rest, so that a profile of a key never changes. */
  readonly key: string;
  /** The first that matches counts; "pass" goes on behind the tier. */
  readonly admin: readonly ProfileRule[];
  /** Undefined where no NetworkPolicy isolates the pods in this direction. */
  readonly isolation: Isolation | undefined;
  /** What policies with the annotation drawbridge.dev/shadow would isolate; undefined where others isolate already. */
  readonly shadow: Isolation | undefined;
  /** Asked where nothing isolates. */
  readonly baseline: readonly ProfileRule[];
}

/** What judges a pod in each direction; undefined where no policy selects it. */
export type ProfilesByDirection = Readonly<Record<Direction, Profile | undefined>>;

/** What NetworkPolicies allow: the union of their rules, and nothing else. */
export interface Isolation {
  /** Keys of the policies that isolate, in order; at least one. */
  readonly policies: readonly string[];
  /** All with the action "allow", in the order of the policies' keys and of their rules. */
  readonly rules: readonly ProfileRule[];
  /** Keys of those policies that have no rules here, since all together would have too many (POL-73). */
  readonly leftOut: readonly string[];
}

export interface ProfileRule {
  /** Undefined is everyone, an empty list nobody. */
  readonly peers: readonly PeerGroup[] | undefined;
  /** Undefined is all traffic, ICMP among it; an empty list none. */
  readonly ports: readonly PortGroup[] | undefined;
  readonly action: "allow" | "deny" | "pass";
  readonly origin: RuleOrigin;
}

/** Where a rule was written. */
export interface RuleOrigin {
  readonly kind: "NetworkPolicy" | "ClusterNetworkPolicy";
  /** The policy's key. */
  readonly policy: string;
  /** Its place in the policy's list of this direction, from 0. */
  readonly index: number;
}

/** Who may be at the other end. Groups of one key are one set in the kernel. */
export type PeerGroup = PodGroup | NodeGroup | RangeGroup;

/** The pods that selectors select, by their labels as they are at any time. */
export interface PodGroup {
  readonly type: "pods";
  readonly key: string;
  /** The only namespace it selects in; undefined where `namespaceSelector` says which. */
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

/** Addresses by prefixes, exceptions taken out: ranges in order that neither overlap nor touch, of both families. */
export interface RangeGroup {
  readonly type: "ranges";
  readonly key: string;
  readonly ranges: readonly AddressRange[];
}

/** The destination's ports. */
export type PortGroup =
  /** From `first` to `last`, both included; 0 to 65535 is every port. */
  | { readonly type: "range"; readonly protocol: Protocol; readonly first: number; readonly last: number }
  /** What the destination's pod calls so, of any protocol where it is undefined. */
  | { readonly type: "name"; readonly protocol: Protocol | undefined; readonly name: string };
