import type { Element, SetDefinition, Table } from "../../kernel/nftables/model/object.ts";
import type { ElementsByKey } from "./desired/desired_element.ts";
import { elementOf, isSamePacked, type PackedElement } from "./desired/packed_element.ts";

/** The changes to the elements of one set. */
export interface SetDifference {
  readonly table: Table;
  readonly set: SetDefinition;
  readonly deleted: readonly Element[];
  readonly added: readonly Element[];
  /** The texts of the keys of `added`, in the same order: the strings that are stored anyway. */
  readonly addedKeys: readonly string[];
  /** The stored form of `added`, in the same order. */
  readonly addedKept: readonly PackedElement[];
  /** All added elements by key, if the batch adds the set: the mirror stores this map, not a second one. */
  readonly content?: Map<string, PackedElement>;
}

/**
 * Returns the changes that turn the present elements of a set into the wanted ones, for the given keys only.
 *
 * An element whose data differ is deleted and added: the kernel refuses to overwrite it.
 */
export function setDifference(
  table: Table,
  set: SetDefinition,
  present: ElementsByKey,
  wanted: { get(key: string): PackedElement | undefined },
  keys: Iterable<string>,
): SetDifference {
  const deleted: Element[] = [];
  const added: Element[] = [];
  const addedKeys: string[] = [];
  const addedKept: PackedElement[] = [];
  for (const key of keys) {
    const old = present.get(key);
    const next = wanted.get(key);
    if (old !== undefined && next !== undefined && isSamePacked(old, next)) continue;
    if (old !== undefined) deleted.push(elementOf(key, old));
    if (next === undefined) continue;
    added.push(elementOf(key, next));
    addedKeys.push(key);
    addedKept.push(next);
  }
  return { table, set, deleted, added, addedKeys, addedKept };
}

/** A commit after which the kernel has everything that is desired. */
export interface Commit {
  /** Everything was compared with the kernel: at the start, after a failure, after another program's change. */
  readonly isWhole: boolean;
  /** The changes, except to tables that were written as a whole. */
  readonly differences: readonly SetDifference[];
}
