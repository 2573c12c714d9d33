import type { Change, SetName } from "../../kernel/nftables/encode/change.ts";
import type { Chain, Element, SetDefinition, Table } from "../../kernel/nftables/model/object.ts";
import type { SetDifference } from "./difference.ts";

/** The changes that one transaction makes to one table. */
export interface TableBatch {
  readonly table: Table;
  /** After this batch, rules in force refer, or may refer, to everything that earlier batches added. */
  readonly isInForce: boolean;
  /** The table is written as a whole. */
  readonly isWhole: boolean;
  /** The existing table is deleted first. */
  readonly isReplaced: boolean;
  /** The table is created, or taken over from a process that has ended. */
  readonly isAdded: boolean;
  readonly addedSets: readonly SetDefinition[];
  /** They are added without rules. */
  readonly addedChains: readonly Chain[];
  /** Their rules are deleted. */
  readonly flushedChains: readonly string[];
  /** Their rules are added. */
  readonly writtenChains: readonly Chain[];
  readonly flushedSets: readonly SetName[];
  readonly differences: readonly SetDifference[];
  /** The keys that were compared for the differences, by set. */
  readonly compared: ReadonlyMap<string, Iterable<string>>;
  /** The elements that rules had written into the sets of a table that is replaced. */
  readonly kept: readonly { readonly set: SetDefinition; readonly elements: readonly Element[] }[];
  readonly deletedChains: readonly string[];
  readonly deletedSets: readonly SetName[];
}

/** A batch that does nothing to a table. */
export function emptyBatch(table: Table): TableBatch {
  return {
    table,
    isInForce: false,
    isWhole: false,
    isReplaced: false,
    isAdded: false,
    addedSets: [],
    addedChains: [],
    flushedChains: [],
    writtenChains: [],
    flushedSets: [],
    differences: [],
    compared: new Map(),
    kept: [],
    deletedChains: [],
    deletedSets: [],
  };
}

/**
 * Returns the steps of a transaction: sets, chains, rules, elements, and the reverse, so that what is named exists and
 * what is deleted is not named. Elements are deleted before others are added, since ranges must not overlap.
 */
export function changesOf(batch: readonly TableBatch[]): readonly Change[] {
  return batch.flatMap(changesOfTable);
}

function changesOfTable(batch: TableBatch): readonly Change[] {
  const { table } = batch;
  const { sets: _sets, chains: _chains, ...head } = table;
  const changes: Change[] = [];
  if (batch.isReplaced) changes.push({ kind: "delete table", table });
  if (batch.isAdded) changes.push({ kind: "add table", table: head });
  for (const set of batch.addedSets) changes.push({ kind: "add set", table, set });
  for (const chain of batch.addedChains) changes.push({ kind: "add chain", table, chain });
  for (const chain of batch.flushedChains) changes.push({ kind: "flush chain", table, chain });
  for (const { name, rules } of batch.writtenChains) {
    for (const rule of rules) changes.push({ kind: "add rule", table, chain: name, rule });
  }
  addElementChanges(changes, batch);
  for (const chain of batch.deletedChains) changes.push({ kind: "delete chain", table, chain });
  for (const set of batch.deletedSets) changes.push({ kind: "delete set", table, set });
  return changes;
}

function addElementChanges(changes: Change[], { table, flushedSets, differences, kept }: TableBatch): void {
  for (const set of flushedSets) changes.push({ kind: "flush set", table, set });
  for (const { set, deleted } of differences) {
    if (deleted.length > 0) changes.push({ kind: "delete elements", table, set, elements: deleted });
  }
  for (const { set, elements } of kept) changes.push({ kind: "add elements", table, set, elements });
  for (const { set, added } of differences) {
    if (added.length > 0) changes.push({ kind: "add elements", table, set, elements: added });
  }
}
