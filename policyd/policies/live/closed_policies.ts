import type { MemberSet } from "../compile/sets/member_set.ts";
import type { SetDefinition } from "../../../kernel/nftables/model/object.ts";
import type { Profile } from "../compile/profile.ts";
import { MOST_PROFILE_PAIRS } from "../policy_size.ts";
import { MOST_SET_ELEMENTS } from "./sets/set_room.ts";

/** The reason why a policy allows some pods nothing although it is not too large itself, for people. */
export const OMITTED =
  `the policies of some pods come to more than ${MOST_PROFILE_PAIRS} pairs of a peer or an exception and a port, and this one ` +
  "comes after those: it allows these pods nothing; have fewer or smaller policies select them";

/** The reason why a NetworkPolicy is restricted that uses a set without room for all elements, for people. */
export const CLOSED_POLICY =
  `too many pairs of a selected pod's address and a port or of a selector and pods, too many ipBlocks, or too many ranges and names of ports and domain names (more than ${MOST_SET_ELEMENTS} for ` +
  "one set of policies, or more than this namespace may have beside those of others on a node): it does not allow all of " +
  "these peers; select fewer pods or ports, or use fewer selectors, ipBlocks, ranges or names";

/**
 * Returns the keys of the NetworkPolicies of a profile whose rules use one of these sets, each once, in the profile's
 * order.
 *
 * Rules of a policy that name the same peers without using the set count as well. For a set whose elements never change,
 * these are all rules with ranges of addresses, or with ports.
 */
export function policiesThatAsk(profile: Profile, sets: readonly (MemberSet | SetDefinition)[]): readonly string[] {
  const asked = new Set(sets.flatMap(askedOf));
  const asking = new Set<string>();
  for (const { peers, ports, origin } of (profile.isolation ?? profile.shadow)?.rules ?? []) {
    const isAsking =
      peers?.some(({ key, type }) => asked.has(`group ${key}`) || asked.has(type)) === true ||
      ports?.some((port) => asked.has(port.type === "name" ? `port ${port.name}` : port.type)) === true;
    if (isAsking) asking.add(origin.policy);
  }
  return [...asking];
}

/** Returns the peers and ports for which rules use a set, by groups, names of ports or types. */
function askedOf(set: MemberSet | SetDefinition): readonly string[] {
  if (!("sources" in set)) return [set.key[0] === "inet_proto" || set.key[0] === "inet_service" ? "range" : "ranges"];
  return set.sources.flatMap(({ group, ports }) => {
    if (group !== undefined) return [`group ${group.key}`];
    return ports.type === "name" ? [`port ${ports.name}`] : [];
  });
}
