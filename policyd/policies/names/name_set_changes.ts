import { familyOf } from "../../../kernel/ip/address.ts";
import type { Change } from "../../../kernel/nftables/encode/change.ts";
import type { Element } from "../../../kernel/nftables/model/object.ts";
import { nameSets } from "../compile/name_rules.ts";
import { POLICY_TABLE } from "../compile/policy_table.ts";
import type { NameGroup } from "../compile/profile.ts";
import { type ByPattern, byPattern, longestOf, type Place } from "./known_addresses.ts";

/**
 * Returns the changes that give places their elements, or leave them without one, whatever the sets have there. Kernels
 * before 6.12 cannot change the time of an element, and refuse to delete one that is not there.
 *
 * @param elementAt undefined where there is to be none
 */
export function replacing(
  places: readonly Place[],
  elementAt: (place: Place) => Element | undefined,
): readonly Change[] {
  const bySet = Map.groupBy(places, ({ group, pod }) => `${group} ${familyOf(pod)}`);
  return [...bySet.values()].flatMap((ofSet): readonly Change[] => {
    const [first] = ofSet;
    if (first === undefined) return [];
    const set = nameSets({ key: first.group })[familyOf(first.pod)];
    const all = ofSet.map((place) => ({ key: [place.pod, place.remote], element: elementAt(place) }));
    const present = all.flatMap(({ element = [] }) => element);
    const change = { table: POLICY_TABLE, set };
    return [
      { kind: "add elements", ...change, elements: all.map(({ key, element }) => element ?? { key, timeout: 1 }) },
      { kind: "delete elements", ...change, elements: all.map(({ key }) => ({ key })) },
      ...(present.length === 0 ? [] : [{ kind: "add elements", ...change, elements: present } as const]),
    ];
  });
}

/** Returns those of some groups that have a name. */
export function groupsWith(groups: readonly NameGroup[], name: string): readonly NameGroup[] {
  return [...longestOf({ names: new Map([[name, 0]]) }, indexOf(groups)).keys()];
}

const indexes = new WeakMap<readonly NameGroup[], ByPattern<NameGroup>>();

/** Returns an index of groups by their patterns. */
export function indexOf(groups: readonly NameGroup[]): ByPattern<NameGroup> {
  const known = indexes.get(groups) ?? byPattern(groups.map((group) => [group, group.names] as const));
  indexes.set(groups, known);
  return known;
}
