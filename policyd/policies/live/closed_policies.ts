import type { MemberSet } from "../compile/sets/member_set.ts";
import type { Profile } from "../compile/profile.ts";
import { MOST_PROFILE_PAIRS } from "../policy_size.ts";
import { MOST_SET_ELEMENTS } from "./sets/set_room.ts";

/** The reason why a policy allows some pods nothing although it is not too large itself, for people. */
export const OMITTED =
  `the policies of some pods come to more than ${MOST_PROFILE_PAIRS} pairs of a peer or an exception and a port, and this one ` +
  "comes after those: it allows these pods nothing; have fewer or smaller policies select them";

/** The reason why a NetworkPolicy that uses a closed set is restricted, for people. */
export const CLOSED_POLICY =
  `too many pairs of a selected pod's address and a port, or of a selector and pods (more than ${MOST_SET_ELEMENTS} for pods of one set of ` +
  "policies, or more than this namespace may have beside those of others on a node): it does not allow all of these peers; " +
  "select fewer pods or ports, or use fewer selectors";

/**
 * Returns the keys of the NetworkPolicies of a profile whose rules use one of these sets, each once, in the profile's
 * order.
 *
 * Rules of a policy that name the same peers without using the set count as well.
 */
export function policiesThatAsk(profile: Profile, sets: readonly MemberSet[]): readonly string[] {
  const groups = new Set<string>();
  const names = new Set<string>();
  for (const { sources } of sets) {
    for (const { group, ports } of sources) {
      if (group !== undefined) groups.add(group.key);
      else if (ports.type === "name") names.add(ports.name);
    }
  }
  const asking = new Set<string>();
  for (const { peers, ports, origin } of (profile.isolation ?? profile.shadow)?.rules ?? []) {
    const isAsking =
      peers?.some(({ key }) => groups.has(key)) === true ||
      ports?.some((port) => port.type === "name" && names.has(port.name)) === true;
    if (isAsking) asking.add(origin.policy);
  }
  return [...asking];
}
