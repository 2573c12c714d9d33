import type { Chain, SetDefinition } from "../../kernel/nftables/model/object.ts";
import { emptyBatch, type TableBatch } from "./batch.ts";
import type { TableSources } from "./batch_slices.ts";
import { type SetDifference, setDifference } from "./difference.ts";
import { NO_ELEMENTS } from "./observed/mirror.ts";
import { elementsWork, type Room } from "./batch_work.ts";
import { isWrittenByRules, namesVersion } from "./schema.ts";

/**
 * Returns the pending work on objects that nothing refers to yet: they can be added before what refers to them.
 *
 * @param enough counting stops above this
 */
export function preparationWork(sources: TableSources, enough: number): number {
  const { pending, mirror } = sources;
  // The existing table has the name, so the new one is written as a whole.
  if (mirror.state === "unfit" || pending.sets.size + pending.chains.size + mirror.unused.size === 0) return 0;
  let work = 0;
  const added = new Set<string>();
  for (const { name } of newSets(sources)) {
    added.add(name);
    if (++work > enough) return work;
  }
  for (const { keys } of looseElements(sources, added)) {
    work += elementsWork(keys.size);
    if (work > enough) return work;
  }
  for (const { rules } of unwrittenChains(sources)) {
    work += 1 + rules.length;
    if (work > enough) return work;
  }
  return work;
}

/**
 * Whether the batch adds something that has to exist one batch before what refers to it, since a packet can see the
 * state before a batch and the state after it:
 *
 * - Ranges. The kernel builds their tree for packets after everything else in a commit (nft_set_commit_update in
 *   nf_tables_commit), so rules of the same batch would find the set empty for a while
 *   (test/kernel/range_set_order.test.ts).
 * - Rules that elements lead to. A packet uses the rules of the generation in which it entered its first chain, but the
 *   elements of the generation in which it looks them up (genbit in nft_do_chain, nft_genmask_cur in the lookups of
 *   sets). If a commit overtakes the packet in between, an element would send it into a chain that has no rules for it,
 *   and let it through (test/kernel/overtaken_packets.test.ts).
 */
export function mustComeBefore(sources: TableSources): boolean {
  return hasNewRanges(sources) || hasNewTargets(sources);
}

function hasNewRanges(sources: TableSources): boolean {
  if (sources.mirror.state === "unfit") return false;
  const added = new Set([...newSets(sources)].map(({ name }) => name));
  for (const { set } of looseElements(sources, added)) if (set.isInterval === true) return true;
  return false;
}

/** Whether chains are added or get their first rules, in a table that packets go through. */
function hasNewTargets(sources: TableSources): boolean {
  const { state } = sources.mirror;
  return state !== "unfit" && state !== "absent" && unusedChains(sources).next().done !== true;
}

/** Returns a slice of what nothing refers to: sets with their elements, then chains without rules, then rules. */
export function preparation(sources: TableSources, room: Room): TableBatch {
  if (preparationWork(sources, 0) === 0) return emptyBatch(sources.table);
  const { table, mirror } = sources;
  // New rules may name sets of the schema. Chains with a hook are omitted, since they put everything in force.
  const isAbsent = mirror.state === "absent";
  const schemaSets = isAbsent ? table.sets : [];
  const sets = [...room.fitting(newSets(sources), () => 1)];
  const elements = elementsOf(sources, new Set(sets.map(({ name }) => name)), room);
  const chains = [...room.fitting(newChains(sources), () => 1)];
  const hasRanges = elements.differences.some(({ set }) => set.isInterval === true);
  const writable = hasRanges ? unusedChains(sources) : unwrittenChains(sources);
  const writtenChains = [...room.fitting(writable, ({ rules }) => rules.length)];
  return {
    ...emptyBatch(table),
    isWhole: isAbsent,
    isAdded: mirror.state !== "ours",
    addedSets: [...schemaSets, ...sets],
    addedChains: [...newSchemaChains(sources), ...chains],
    // Existing chains without rules are flushed as well: another program may have added rules to them.
    flushedChains: writtenChains.map(({ name }) => name).filter((name) => mirror.chains.has(name)),
    writtenChains,
    ...elements,
  };
}

/** Sets that do not exist yet, except those that a new table is created with. */
function* newSets({ key, objects, mirror, pending }: TableSources): Generator<SetDefinition> {
  const hasTable = mirror.state !== "absent";
  for (const name of pending.sets) {
    if (mirror.sets.has(name) || !(hasTable || objects.isProvided({ table: key, kind: "set", name }))) continue;
    const set = objects.set(key, name);
    if (set !== undefined) yield set;
  }
}

/**
 * Provided chains that lack the rules they should have, each after the chains that its rules go to. A chain that is in
 * force already and is written again must not send packets into a chain without rules, where nothing would drop them.
 */
function* unwrittenChains(sources: TableSources): Generator<Chain> {
  const visited = new Set<string>();
  for (const name of sources.pending.chains) yield* withTargets(name, sources, visited);
}

/** The same without chains that rules in force may lead to: these must not look up ranges of the same batch. */
function* unusedChains(sources: TableSources): Generator<Chain> {
  for (const chain of unwrittenChains(sources)) if (sources.mirror.chains.get(chain.name) !== "unsure") yield chain;
}

function* withTargets(name: string, sources: TableSources, visited: Set<string>): Generator<Chain> {
  if (visited.has(name)) return;
  visited.add(name);
  const chain = unwrittenChain(name, sources);
  if (chain === undefined) return;
  for (const target of targetsOf(chain)) yield* withTargets(target, sources, visited);
  yield chain;
}

/** The chains that rules go or jump to themselves; the elements of maps are added when every chain exists. */
function targetsOf({ rules }: Chain): readonly string[] {
  return rules.flatMap(({ statements }) =>
    statements.flatMap((statement) =>
      statement.kind === "verdict" && "chain" in statement.verdict ? [statement.verdict.chain] : [],
    ),
  );
}

/**
 * Returns the chain of this name if it is provided, pending and without the rules that it should have. A chain with a
 * hook is never returned: it is part of the batch that puts everything in force.
 */
function unwrittenChain(name: string, sources: TableSources): Chain | undefined {
  const { key, objects, mirror, pending } = sources;
  const state = mirror.chains.get(name);
  const isProvided = objects.isProvided({ table: key, kind: "chain", name });
  if (!isProvided || !pending.chains.has(name) || state === "ours") return undefined;
  // Rules of two versions do not fit each other, so those in force all change in one batch.
  if (state === "unsure" && isOtherVersion(sources)) return undefined;
  const chain = objects.chain(key, name);
  return chain?.base === undefined ? chain : undefined;
}

/** Whether the rules in force, if any, belong to a different version. */
function isOtherVersion({ table, mirror }: TableSources): boolean {
  return table.chains.some((chain) => namesVersion(chain) && !mirror.chains.has(chain.name));
}

/** New chains of the schema without hooks. The chain that names the version is added with what it stands for. */
function newSchemaChains({ table, mirror }: TableSources): readonly Chain[] {
  return table.chains.filter(
    (chain) => chain.base === undefined && !namesVersion(chain) && !mirror.chains.has(chain.name),
  );
}

/** Provided chains that do not exist; they are added without rules, so in any order. */
function* newChains(sources: TableSources): Generator<Chain> {
  for (const name of sources.pending.chains) {
    const chain = sources.mirror.chains.has(name) ? undefined : unwrittenChain(name, sources);
    if (chain !== undefined) yield chain;
  }
}

/** Pending elements of sets that nothing refers to, except those that jump to chains and so refer themselves. */
function* looseElements(
  { key, objects, mirror, pending }: TableSources,
  added: ReadonlySet<string>,
): Generator<{ readonly set: SetDefinition; readonly keys: ReadonlySet<string> }> {
  for (const [name, keys] of pending.elements) {
    if (!mirror.unused.has(name) && !added.has(name)) continue;
    const set = objects.set(key, name);
    if (set === undefined || set.data === "verdict" || isWrittenByRules(set)) continue;
    // The batch that puts everything in force empties it.
    if (mirror.sets.get(name)?.isUnread === true) continue;
    yield { set, keys };
  }
}

function elementsOf(
  sources: TableSources,
  added: ReadonlySet<string>,
  room: Room,
): Pick<TableBatch, "differences" | "compared"> {
  const { table, key, elements, mirror } = sources;
  const differences: SetDifference[] = [];
  const compared = new Map<string, Iterable<string>>();
  for (const { set, keys } of looseElements(sources, added)) {
    const some = room.takeElements(keys);
    if (some === undefined) break;
    const present = mirror.sets.get(set.name)?.elements ?? NO_ELEMENTS;
    differences.push(setDifference(table, set, present, elements.in(key, set.name), some));
    compared.set(set.name, some);
  }
  return { differences, compared };
}
