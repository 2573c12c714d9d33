import { keyText } from "../../kernel/nftables/element.ts";
import type { Element, SetDefinition } from "../../kernel/nftables/object.ts";
import type { TableBatch } from "./batch.ts";
import type { ElementsByKey, TableKey } from "./claim.ts";
import { tableKey } from "./claim.ts";
import type { SetDifference } from "./difference.ts";
import type { KeptElement } from "./kept_element.ts";

/** What we know of a chain's rules: there are none, they are what we wrote, or they are to be written anew. */
export type ChainState = "empty" | "ours" | "unsure";

/** What our batches have done to a set while it is read piece by piece. */
export interface SetJournal {
  /** The keys of elements that came. */
  readonly added: Set<string>;
  hasDeletion: boolean;
}

export interface MirroredSet {
  readonly elements: Map<string, KeptElement>;
  /** As in its definition; of a set that is not ours, only whether it has data and whether these are verdicts. */
  readonly data: SetDefinition["data"];
  /** All its elements were taken away since it has to go. */
  readonly isFlushed?: boolean;
  /** Nobody wanted it when its table was read: what elements it has is not known. */
  readonly isUnread?: boolean;
  /** While it is read. */
  readonly journal?: SetJournal;
}

/** What we believe the kernel has of one table. */
export interface MirroredTable {
  /**
   * "found" has to be taken over from an earlier process, "unfit" to be replaced as a whole: the sets and chains are
   * then those of the table to come.
   */
  readonly state: "absent" | "unfit" | "found" | "ours";
  readonly sets: Map<string, MirroredSet>;
  readonly chains: Map<string, ChainState>;
  /** Sets that no rule in force refers to: their elements may come bit by bit. */
  readonly unused: Set<string>;
  /** Of a table that is replaced, what rules had written into its sets. */
  readonly kept: ReadonlyMap<string, readonly Element[]>;
}

/** A table of which the kernel has nothing, or nothing of use. */
export function emptyTable(
  state: "absent" | "unfit",
  kept: ReadonlyMap<string, readonly Element[]> = new Map(),
): MirroredTable {
  return { state, sets: new Map(), chains: new Map(), unused: new Set(), kept };
}

export const NO_ELEMENTS: ElementsByKey = new Map();

/** What we believe the kernel has: what it showed when we last read it, and what we committed since. */
export class Mirror {
  readonly #tables = new Map<TableKey, MirroredTable>();

  table(key: TableKey): MirroredTable {
    const table = this.#tables.get(key) ?? emptyTable("absent");
    this.#tables.set(key, table);
    return table;
  }

  /** Takes over what the kernel showed. */
  load(key: TableKey, table: MirroredTable): void {
    this.#tables.set(key, table);
  }

  /** The elements of one set. */
  elements(key: TableKey, set: string): ElementsByKey {
    return this.#tables.get(key)?.sets.get(set)?.elements ?? NO_ELEMENTS;
  }

  /** Takes over what was committed. */
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
