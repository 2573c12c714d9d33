import type { NetworkPolicy } from "../cluster/model.ts";

/**
 * The most pairs of a peer, exceptions counted, and a port that a NetworkPolicy may come to in one direction: sets, rules
 * and the time they take stay bounded. A ClusterNetworkPolicy's rules the gate bounds.
 */
export const MOST_PAIRS = 4096;

/** Likewise, of all NetworkPolicies that pods have in one direction. */
export const MOST_PROFILE_PAIRS = 8192;

const DIRECTIONS = ["ingress", "egress"] as const;

type Direction = (typeof DIRECTIONS)[number];

/** What becomes of what a policy allows: it is in force, or none of it is for its size or that of those before it. */
export type Share = "in force" | "too large" | "left out";

/**
 * How far policies that pods have together allow what they say (POL-73).
 *
 * @param policies in the order in which they may have pairs, which is that of their keys
 * @returns in the same order
 */
export function sharesOf(policies: readonly NetworkPolicy[], direction: Direction): readonly Share[] {
  let left = MOST_PROFILE_PAIRS;
  return policies.map((policy) => {
    const pairs = pairsOf(policy, direction);
    if (pairs > MOST_PAIRS) return "too large";
    if (pairs > left) return "left out";
    left -= pairs;
    return "in force";
  });
}

/** A direction in which a policy is too large. */
export interface TooLarge {
  readonly direction: Direction;
  /** For people. */
  readonly text: string;
}

/** Where a policy does not allow what it says, whatever other policies there are. */
export function tooLargeIn(policy: NetworkPolicy): readonly TooLarge[] {
  return DIRECTIONS.flatMap((direction) => {
    const pairs = pairsOf(policy, direction);
    if (pairs <= MOST_PAIRS) return [];
    const text =
      `${pairs} pairs of a peer or an exception and a port; expected at most ${MOST_PAIRS}: ` +
      "the pods are isolated, and the policy allows them nothing";
    return [{ direction, text }];
  });
}

/** How many rules there would be if each were for one peer or exception and one port. */
function pairsOf(policy: NetworkPolicy, direction: Direction): number {
  return policy[direction].reduce((sum, { peers, ports }) => {
    const places = peers?.reduce((all, peer) => all + 1 + (peer.type === "ipBlock" ? peer.except.length : 0), 0) ?? 1;
    return sum + places * (ports?.length ?? 1);
  }, 0);
}
