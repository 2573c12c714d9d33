import type { TableBatch } from "./batch.ts";
import type { PlanSources } from "./batch_slices.ts";
import { type TableKey, tableKey } from "./desired/desired_element.ts";
import type { ElementPlace } from "./desired/desired_elements.ts";
import type { ObjectPlace } from "./desired/desired_objects.ts";
import { markElements } from "./observed/table_objects.ts";

/** The names and keys of one table that have to be compared and put in force. */
export interface TablePending {
  readonly sets: Set<string>;
  readonly chains: Set<string>;
  /** Keys of elements by set. */
  readonly elements: Map<string, Set<string>>;
}

/** Everything whose desired and observed state may differ. */
export class Pending {
  readonly #tables = new Map<TableKey, TablePending>();

  /** The pending changes of a table; the caller may modify them. */
  table(key: TableKey): TablePending {
    let pending = this.#tables.get(key);
    if (pending === undefined) this.#tables.set(key, (pending = newTable()));
    return pending;
  }

  markElement({ table, set, key }: ElementPlace): void {
    const { elements } = this.table(table);
    const keys = elements.get(set);
    if (keys === undefined) elements.set(set, new Set([key]));
    else keys.add(key);
  }

  markObject({ table, kind, name }: ObjectPlace): void {
    const pending = this.table(table);
    (kind === "set" ? pending.sets : pending.chains).add(name);
  }

  /** Replaces a table's pending changes. */
  load(key: TableKey, pending: TablePending): void {
    this.#tables.set(key, pending);
  }

  clear(): void {
    for (const { sets, chains, elements } of this.#tables.values()) {
      sets.clear();
      chains.clear();
      elements.clear();
    }
  }

  get isEmpty(): boolean {
    for (const { sets, chains, elements } of this.#tables.values()) {
      if (sets.size + chains.size + elements.size > 0) return false;
    }
    return true;
  }

  /** The number of pending objects and elements. */
  get size(): number {
    let size = 0;
    for (const { sets, chains, elements } of this.#tables.values()) {
      size += sets.size + chains.size;
      for (const keys of elements.values()) size += keys.size;
    }
    return size;
  }
}

/** Removes from the pending changes what a batch has settled, when further batches follow. */
export function settle(batch: TableBatch, { objects, elements: desired, pending }: PlanSources): void {
  const key = tableKey(batch.table);
  const ofTable = pending.table(key);
  const { sets, chains, elements } = ofTable;
  for (const { name } of [...batch.addedSets, ...batch.deletedSets]) sets.delete(name);
  for (const name of [...batch.writtenChains.map((chain) => chain.name), ...batch.deletedChains]) chains.delete(name);
  if (batch.isInForce) {
    // Only what has to be removed is still pending.
    for (const name of sets) if (objects.set(key, name) !== undefined) sets.delete(name);
    for (const name of chains) if (objects.chain(key, name) !== undefined) chains.delete(name);
    elements.clear();
  } else {
    settleElements(elements, batch.compared);
    // A table that is built in slices gets the sets of the schema first, without elements.
    for (const set of batch.addedSets) {
      if (batch.table.sets.includes(set)) markElements(ofTable, set, desired.keys(key, set.name));
    }
  }
}

function settleElements(elements: Map<string, Set<string>>, compared: ReadonlyMap<string, Iterable<string>>): void {
  for (const [set, done] of compared) {
    const keys = elements.get(set);
    if (done !== keys) for (const one of done) keys?.delete(one);
    if (done === keys || keys?.size === 0) elements.delete(set);
  }
}

function newTable(): TablePending {
  return { sets: new Set(), chains: new Set(), elements: new Map() };
}
