import type { Change, SetName } from "../../kernel/nftables/change.ts";
import type { Chain, Element, SetDefinition, Table } from "../../kernel/nftables/object.ts";
import type { SetDifference } from "./difference.ts";

/** What one transaction does to one table. */
export interface TableBatch {
  readonly table: Table;
  /** What came before is referred to by now, or may be. */
  readonly isInForce: boolean;
  /** The table is written as a whole. */
  readonly isWhole: boolean;
  /** The table that is there goes first. */
  readonly isReplaced: boolean;
  /** The table comes, or is taken over from a process that has ended. */
  readonly isAdded: boolean;
  readonly addedSets: readonly SetDefinition[];
  /** They come without rules. */
  readonly addedChains: readonly Chain[];
  /** Their rules go. */
  readonly flushedChains: readonly string[];
  /** Their rules come. */
  readonly writtenChains: readonly Chain[];
  readonly flushedSets: readonly SetName[];
  readonly differences: readonly SetDifference[];
  /** The keys that were looked at for them, by set. */
  readonly compared: ReadonlyMap<string, Iterable<string>>;
  /** What rules had written into sets of a table that is replaced. */
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
 * The steps of a transaction, so ordered that what is named is there, and what goes is not named any more: sets, chains,
 * rules, elements, and back. Elements go before others come, since ranges must not overlap on the way.
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
