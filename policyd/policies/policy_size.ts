import { type Direction, DIRECTIONS } from "../../objects/semantics/policies/flow.ts";
import type { NetworkPolicy, PolicyPort } from "../../objects/model.ts";

/**
 * The most pairs of a peer or exception and a port that a NetworkPolicy may have in one direction. It bounds sets,
 * rules and the time they take. The gate bounds the rules of ClusterNetworkPolicies.
 */
export const MOST_PAIRS = 4096;

/** The same for all NetworkPolicies of a pod in one direction together. */
export const MOST_PROFILE_PAIRS = 8192;

/** The pairs for which a port or a peer counts that has sets of its own, each of which all later changes take longer for. */
const PAIRS_OF_SETS = 16;

/** Whether a policy is in force, or allows nothing because of its own size or of those before it. */
export type Share = "in force" | "too large" | "omitted";

/**
 * Returns how far policies that select the same pods allow what they say (POL-73).
 *
 * @param policies in the order in which they may use up the pairs, which is that of their keys
 * @returns in the same order
 */
export function sharesOf(policies: readonly NetworkPolicy[], direction: Direction): readonly Share[] {
  let left = MOST_PROFILE_PAIRS;
  return policies.map((policy) => {
    const pairs = pairsOf(policy, direction);
    if (pairs > MOST_PAIRS) return "too large";
    if (pairs > left) return "omitted";
    left -= pairs;
    return "in force";
  });
}

/** A direction in which a policy is too large. */
export interface TooLarge {
  readonly direction: Direction;
  /** For administrators. */
  readonly text: string;
}

/** Returns the directions in which a policy is too large, whatever other policies there are. */
export function tooLargeIn(policy: NetworkPolicy): readonly TooLarge[] {
  return DIRECTIONS.flatMap((direction) => {
    const pairs = pairsOf(policy, direction);
    if (pairs <= MOST_PAIRS) return [];
    const text =
      `${pairs} pairs of a peer or an exception and a port (${PAIRS_OF_SETS} for a range or a name of ports and for a list of domain names); expected at most ${MOST_PAIRS}: ` +
      "the pods are isolated, and the policy allows them nothing";
    return [{ direction, text }];
  });
}

/** Returns the number of rules if each had a single peer or exception and a single port, and more for what has sets. */
function pairsOf(policy: NetworkPolicy, direction: Direction): number {
  return policy[direction].reduce((sum, { peers, ports }) => {
    const ofPeers = peers === undefined ? [] : (ports?.filter(hasSets) ?? []);
    const withSets = ofPeers.length + (peers?.filter(({ type }) => type === "names").length ?? 0);
    const places = peers?.reduce((all, peer) => all + 1 + (peer.type === "ipBlock" ? peer.except.length : 0), 0) ?? 1;
    return sum + places * (ports?.length ?? 1) + (PAIRS_OF_SETS - 1) * withSets;
  }, 0);
}

/** Whether the peers at a port have sets of their own: those at single ports share one (`flattenedRules`). */
function hasSets({ port, endPort }: PolicyPort): boolean {
  return typeof port === "string" || (endPort ?? port) !== port;
}
