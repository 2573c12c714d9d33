import type { Element, SetDefinition, Table } from "../../kernel/nftables/object.ts";
import type { ElementsByKey } from "./claim.ts";
import type { KeptElement } from "./kept_element.ts";
import { elementOf, isSameKept } from "./kept_element.ts";

/** What has to happen to the elements of one set. */
export interface SetDifference {
  readonly table: Table;
  readonly set: SetDefinition;
  readonly deleted: readonly Element[];
  readonly added: readonly Element[];
  /** The texts of their keys, in their order: those that are kept anyway. */
  readonly addedKeys: readonly string[];
  /** And what is kept of them. */
  readonly addedKept: readonly KeptElement[];
  /** What was added by its keys, of a set that comes with it: its account is this map, so that no second one is made. */
  readonly content?: Map<string, KeptElement>;
}

/**
 * What makes a set's elements the wanted ones, looking at the given keys only.
 *
 * An element with other data is deleted and added: the kernel refuses to overwrite it.
 */
export function setDifference(
  table: Table,
  set: SetDefinition,
  present: ElementsByKey,
  wanted: { get(key: string): KeptElement | undefined },
  keys: Iterable<string>,
): SetDifference {
  const deleted: Element[] = [];
  const added: Element[] = [];
  const addedKeys: string[] = [];
  const addedKept: KeptElement[] = [];
  for (const key of keys) {
    const old = present.get(key);
    const next = wanted.get(key);
    if (old !== undefined && next !== undefined && isSameKept(old, next)) continue;
    if (old !== undefined) deleted.push(elementOf(key, old));
    if (next === undefined) continue;
    added.push(elementOf(key, next));
    addedKeys.push(key);
    addedKept.push(next);
  }
  return { table, set, deleted, added, addedKeys, addedKept };
}
