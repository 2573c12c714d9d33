import type { SetDefinition, Table } from "../../../kernel/nftables/model/object.ts";
import type { ChainState, SetState } from "../../../kernel/nftables/decode/state.ts";
import { tableKey } from "../desired/desired_element.ts";
import { emptyTable, type MirroredTable } from "./mirror.ts";
import type { TablePending } from "../pending.ts";
import { isWrittenByRules } from "../schema.ts";
import type { ReadingSources } from "./table_reading.ts";

/** NFT_DATA_VERDICT. */
const VERDICT_TYPE = 0xffffff00;

/** Returns the mirror of an existing table that can be taken over. */
export function takeTable(table: Table, { known, mirror: mirrors }: ReadingSources): MirroredTable {
  const key = tableKey(table);
  const before = mirrors.table(key);
  const { chains, sets, unused } = before.state === "unfit" ? emptyTable("absent") : before;
  const state = known.has(key) ? "ours" : "found";
  const mirror: MirroredTable = { state, sets, chains, unused, kept: new Map() };
  mirrors.load(key, mirror);
  return mirror;
}

/** Records which chains exist. Differences from the desired chains become pending, and `problems` describes them. */
export function takeChains(
  key: string,
  present: readonly ChainState[],
  { objects, known, pending: allPending }: ReadingSources,
  { chains }: MirroredTable,
  problems: string[],
): void {
  const pending = allPending.table(key).chains;
  const names = new Set(present.map(({ name = "" }) => name));
  for (const name of names) {
    if (chains.has(name)) continue;
    const isWanted = objects.chain(key, name) !== undefined;
    const isKnown = isWanted && known.get(key)?.has(name) === true;
    chains.set(name, isKnown ? "ours" : "unsure");
    if (!isWanted) mark(pending, name, `chain ${name}: not ours`, problems);
    else if (!isKnown) pending.add(name);
  }
  for (const name of chains.keys()) {
    if (names.has(name)) continue;
    chains.delete(name);
    known.get(key)?.delete(name);
  }
  for (const { name } of objects.chains(key)) {
    if (!chains.has(name)) mark(pending, name, `chain ${name}: missing`, problems);
  }
}

/** Like {@link takeChains}, for sets. */
export function takeSets(
  table: Table,
  present: readonly SetState[],
  { objects, elements, pending: allPending }: ReadingSources,
  { chains, sets, unused }: MirroredTable,
  problems: string[],
): void {
  const key = tableKey(table);
  const pending = allPending.table(key);
  const names = new Set<string>();
  for (const state of present) {
    const { name = "" } = state;
    names.add(name);
    if (sets.has(name)) continue;
    sets.set(name, { elements: new Map(), data: dataOf(state), isUnread: true });
    if (objects.set(key, name) === undefined) mark(pending.sets, name, `set ${name}: not ours`, problems);
  }
  for (const name of sets.keys()) if (!names.has(name)) sets.delete(name);
  for (const set of objects.sets(key)) {
    if (sets.has(set.name)) continue;
    mark(pending.sets, set.name, `set ${set.name}: missing`, problems);
    markElements(pending, set, elements.keys(key, set.name));
  }
  // A table that was left incomplete has no hook, so no rule in force refers to its sets.
  const isInForce = table.chains.some(({ name, base }) => base !== undefined && chains.has(name));
  if (!isInForce) for (const name of sets.keys()) unused.add(name);
}

function dataOf({ dataType }: SetState): SetDefinition["data"] {
  if (dataType === undefined) return undefined;
  return dataType === VERDICT_TYPE ? "verdict" : [];
}

/** Adds a name to the pending ones, and its problem to `problems` unless the name was pending before. */
export function mark(pending: Set<string>, name: string, problem: string, problems: string[]): void {
  if (!pending.has(name)) problems.push(problem);
  pending.add(name);
}

/** Adds keys of a set to the pending ones. @returns the number of keys that were not pending before */
export function markElements({ elements }: TablePending, set: SetDefinition, keys: Iterable<string>): number {
  if (isWrittenByRules(set)) return 0;
  const pending = elements.get(set.name) ?? new Set<string>();
  const before = pending.size;
  for (const key of keys) pending.add(key);
  if (pending.size > 0) elements.set(set.name, pending);
  return pending.size - before;
}
