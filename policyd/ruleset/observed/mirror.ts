import { keyText } from "../../../kernel/nftables/encode/element.ts";
import type { Element, SetDefinition } from "../../../kernel/nftables/model/object.ts";
import type { TableBatch } from "../batch.ts";
import { type ElementsByKey, type TableKey, tableKey } from "../desired/desired_element.ts";
import type { SetDifference } from "../difference.ts";
import type { PackedElement } from "../desired/packed_element.ts";

/** The state of a chain's rules: there are none, they are what we wrote, or they have to be written again. */
export type MirroredChain = "empty" | "ours" | "unsure";

/** The changes that our batches made to a set while it was read piece by piece. */
export interface SetJournal {
  /** The keys of added elements. */
  readonly added: Set<string>;
  hasDeletion: boolean;
}

export interface MirroredSet {
  readonly elements: Map<string, PackedElement>;
  /** As in its definition. For a set that is not ours: only whether it has data, and whether these are verdicts. */
  readonly data: SetDefinition["data"];
  /** All its elements were deleted because the set is to be removed. */
  readonly isFlushed?: boolean;
  /** The set was not desired when its table was read, so its elements are not known. */
  readonly isUnread?: boolean;
  /** Present during a read of the set. */
  readonly journal?: SetJournal;
}

/** The state that we believe one table of the kernel has. */
export interface MirroredTable {
  /**
   * "found" has to be taken over from an earlier process, "unfit" has to be replaced as a whole: the sets and chains
   * are then those of the new table.
   */
  readonly state: "absent" | "unfit" | "found" | "ours";
  readonly sets: Map<string, MirroredSet>;
  readonly chains: Map<string, MirroredChain>;
  /** Sets that no rule in force refers to, so their elements may be added in slices. */
  readonly unused: Set<string>;
  /** The elements that rules had written into the sets of a table that is replaced. */
  readonly kept: ReadonlyMap<string, readonly Element[]>;
}

/** Returns the mirror of a table that the kernel does not have, or that cannot be taken over. */
export function emptyTable(
  state: "absent" | "unfit",
  kept: ReadonlyMap<string, readonly Element[]> = new Map(),
): MirroredTable {
  return { state, sets: new Map(), chains: new Map(), unused: new Set(), kept };
}

export const NO_ELEMENTS: ElementsByKey = new Map();

/** The state that we believe the kernel has: what it showed when we last read it, and what we committed since. */
export class Mirror {
  readonly #tables = new Map<TableKey, MirroredTable>();

  table(key: TableKey): MirroredTable {
    const table = this.#tables.get(key) ?? emptyTable("absent");
    this.#tables.set(key, table);
    return table;
  }

  /** Records what the kernel showed. */
  load(key: TableKey, table: MirroredTable): void {
    this.#tables.set(key, table);
  }

  /** The elements of one set. */
  elements(key: TableKey, set: string): ElementsByKey {
    return this.#tables.get(key)?.sets.get(set)?.elements ?? NO_ELEMENTS;
  }

  /** Records what was committed. */
  apply(batch: TableBatch): void {
    const key = tableKey(batch.table);
    const { sets, chains, unused } = this.table(key);
    if (batch.isAdded) this.#tables.set(key, { state: "ours", sets, chains, unused, kept: new Map() });
    for (const { name, data } of batch.addedSets) {
      sets.set(name, { elements: new Map(), data });
      if (!batch.isInForce) unused.add(name);
    }
    for (const { name } of batch.addedChains) chains.set(name, "empty");
    for (const name of batch.flushedChains) chains.set(name, "empty");
    for (const { name } of batch.writtenChains) chains.set(name, "ours");
    for (const { name, data } of batch.flushedSets) sets.set(name, { elements: new Map(), data, isFlushed: true });
    for (const difference of batch.differences) applyDifference(sets, difference);
    for (const name of batch.deletedChains) chains.delete(name);
    for (const { name } of batch.deletedSets) sets.delete(name);
    if (batch.isInForce) unused.clear();
  }
}

function applyDifference(
  sets: Map<string, MirroredSet>,
  { set, deleted, addedKeys, addedKept, content }: SetDifference,
): void {
  const mirrored = sets.get(set.name);
  if (mirrored === undefined) return;
  const { elements, data, isFlushed, journal } = mirrored;
  if (content !== undefined && elements.size === 0) {
    sets.set(set.name, { elements: content, data });
    return;
  }
  if (isFlushed === true) sets.set(set.name, { elements, data });
  for (const { key } of deleted) elements.delete(keyText(key));
  for (const [index, key] of addedKeys.entries()) {
    const element = addedKept[index];
    if (element !== undefined) elements.set(key, element);
    journal?.added.add(key);
  }
  if (journal !== undefined && deleted.length > 0) journal.hasDeletion = true;
}
