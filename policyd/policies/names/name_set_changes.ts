import { familyOf, FAMILIES } from "../../../kernel/ip/address.ts";
import type { Change } from "../../../kernel/nftables/encode/change.ts";
import type { Element, SetDefinition } from "../../../kernel/nftables/model/object.ts";
import { nameSets } from "../compile/name_rules.ts";
import { POLICY_TABLE } from "../compile/policy_table.ts";
import type { NameGroup } from "../compile/profile.ts";
import type { KnownAddress } from "./known_addresses.ts";

/** Returns the changes that remove entries from the sets of groups, whether or not they have them. */
export function removals(entries: readonly KnownAddress[], groups: readonly NameGroup[]): readonly Change[] {
  if (entries.length === 0) return [];
  return groups.flatMap((group) =>
    FAMILIES.flatMap((family): readonly Change[] => {
      const own = entries.filter(({ pod }) => familyOf(pod) === family);
      const elements = own.map(({ pod, remote }): Element => ({ key: [pod, remote], timeout: 1 }));
      const set = nameSets(group)[family];
      return elements.length === 0 ? [] : [adding(set, elements), deleting(set, elements)];
    }),
  );
}

/** Returns the change that adds elements to a set. */
export function adding(set: SetDefinition, elements: readonly Element[]): Change {
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
