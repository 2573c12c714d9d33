import { familyOf } from "../../../kernel/ip/address.ts";
import type { Change } from "../../../kernel/nftables/encode/change.ts";
import type { Element, SetDefinition } from "../../../kernel/nftables/model/object.ts";
import { knownElement, nameSets } from "../compile/name_rules.ts";
import { POLICY_TABLE } from "../compile/policy_table.ts";
import type { NameGroup } from "../compile/profile.ts";
import { type ByPattern, byPattern, type KnownAddress, longestOf } from "./known_addresses.ts";

/** Returns the changes that remove entries from the sets of some of their groups, whether or not these have them. */
export function removals(entries: readonly KnownAddress[], isMeant: (group: string) => boolean): readonly Change[] {
  const all = entries.flatMap(({ pod, remote, groups }) =>
    [...groups].filter(isMeant).map((key) => ({
      set: nameSets({ key })[familyOf(pod)],
      element: { key: [pod, remote], timeout: 1 },
    })),
  );
  return bySet(all).flatMap(({ set, elements }) => [adding(set, elements), deleting(set, elements)]);
}

/** Returns the changes that add what a pod knows at a time to the sets of some groups. */
export function additions(
  entries: readonly KnownAddress[],
  container: string,
  groups: readonly NameGroup[],
  now: number,
): readonly Change[] {
  const index = indexOf(groups);
  const found = entries.flatMap((entry) =>
    [...longestOf(entry, index)]
      .filter(([, { until }]) => until > now)
      .map(([group, { name, until }]) => {
        const { pod, remote } = entry;
        const set = nameSets(group)[familyOf(pod)];
        return { set, element: knownElement(pod, remote, { container, name }, until - now) };
      }),
  );
  return bySet(found).map(({ set, elements }) => adding(set, elements));
}

/** Returns the elements of each set. */
function bySet(
  all: readonly { readonly set: SetDefinition; readonly element: Element }[],
): readonly { readonly set: SetDefinition; readonly elements: readonly Element[] }[] {
  const found = new Map<string, { readonly set: SetDefinition; readonly elements: Element[] }>();
  for (const { set, element } of all) {
    const known = found.get(set.name);
    if (known === undefined) found.set(set.name, { set, elements: [element] });
    else known.elements.push(element);
  }
  return [...found.values()];
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

function adding(set: SetDefinition, elements: readonly Element[]): Change {
  return { kind: "add elements", table: POLICY_TABLE, set, elements };
}

function deleting(set: SetDefinition, elements: readonly Element[]): Change {
  return { kind: "delete elements", table: POLICY_TABLE, set, elements: elements.map(({ key }) => ({ key })) };
}

/**
 * Returns the changes that give an element its time, whether or not the set has it. Kernels before 6.12 cannot change the
 * time of an element, and refuse to delete one that is not there.
 */
export function replacement(set: SetDefinition, element: Element): readonly Change[] {
  return [adding(set, [element]), deleting(set, [element]), adding(set, [element])];
}
