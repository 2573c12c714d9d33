import { familyOf } from "../../../kernel/ip/address.ts";
import type { Change } from "../../../kernel/nftables/encode/change.ts";
import type { Element } from "../../../kernel/nftables/model/object.ts";
import { nameSets } from "../compile/name_rules.ts";
import { POLICY_TABLE } from "../compile/policy_table.ts";
import type { ElementPlace } from "./known_addresses.ts";

/** Returns places by the sets of their elements. */
export function bySet(places: Iterable<ElementPlace>): readonly (readonly ElementPlace[])[] {
  return [...Map.groupBy(places, ({ group, pod }) => `${group} ${familyOf(pod)}`).values()];
}

/**
 * Returns the changes that give places in one set their elements, or leave them without one, whatever the set has there.
 * Those without one go first, which makes room in a full set. Kernels before 6.12 cannot change the time of an element,
 * and refuse to delete one that is not there.
 *
 * @param elementAt undefined where there is to be none
 */
export function replacing(
  places: readonly ElementPlace[],
  elementAt: (place: ElementPlace) => Element | undefined,
): readonly Change[] {
  const [first] = places;
  if (first === undefined) return [];
  const change = { table: POLICY_TABLE, set: nameSets({ key: first.group })[familyOf(first.pod)] };
  const adding = (elements: readonly Element[]): Change => ({ kind: "add elements", ...change, elements });
  const clearing = (elements: readonly Element[]): readonly Change[] => [
    adding(elements),
    { kind: "delete elements", ...change, elements: elements.map(({ key }) => ({ key })) },
  ];
  const all = places.map((place) => ({ key: [place.pod, place.remote], element: elementAt(place) }));
  const gone = all.flatMap(({ key, element }) => (element === undefined ? { key, timeout: 1 } : []));
  const present = all.flatMap(({ element = [] }) => element);
  return [
    ...(gone.length === 0 ? [] : clearing(gone)),
    ...(present.length === 0 ? [] : [...clearing(present), adding(present)]),
  ];
}
