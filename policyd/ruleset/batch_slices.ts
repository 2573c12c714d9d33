import type { Chain, SetDefinition, Table } from "../../kernel/nftables/model/object.ts";
import { emptyBatch, type TableBatch } from "./batch.ts";
import { type TableKey, tableKey } from "./desired/desired_element.ts";
import type { DesiredElements } from "./desired/desired_elements.ts";
import type { DesiredObjects } from "./desired/desired_objects.ts";
import { type SetDifference, setDifference } from "./difference.ts";
import { elementOf, type PackedElement } from "./desired/packed_element.ts";
import type { Mirror, MirroredTable } from "./observed/mirror.ts";
import type { Pending, TablePending } from "./pending.ts";
import { mustComeBefore, preparation, preparationWork } from "./preparation.ts";
import { checkUnclaimed, mustGoBehind, removal, removalWork } from "./removal.ts";
import { Room } from "./batch_work.ts";
import { isWrittenByRules } from "./schema.ts";

/** The state from which the next batch is computed. */
export interface PlanSources {
  readonly tables: readonly Table[];
  readonly objects: DesiredObjects;
  readonly elements: DesiredElements;
  readonly mirror: Mirror;
  readonly pending: Pending;
}

/** The same for one table. */
export interface TableSources {
  readonly table: Table;
  readonly key: TableKey;
  readonly objects: DesiredObjects;
  readonly elements: DesiredElements;
  readonly mirror: MirroredTable;
  readonly pending: TablePending;
}

/** The batch after this one: none, if the kernel then has everything that is desired; or another, and when. */
export type Following = "nothing" | "at once" | "in another turn";

/** One transaction on the way to the desired state. */
export interface Batch {
  readonly tables: readonly TableBatch[];
  readonly following: Following;
}

/**
 * Returns the next batch: everything that is pending, or a slice of it.
 *
 * The kernel works on a batch for as long as the caller waits. If more than `limit` is pending, slices add what nothing
 * refers to yet before the batch that puts everything in force, and remove what nothing refers to any more after it.
 * However little is pending, the same happens to what a packet would miss if a commit overtook it ({@link
 * mustComeBefore}, {@link mustGoBehind}).
 *
 * @param limit the work of a slice: a set, a chain and a rule are 1 each, and so are 16 elements and 8 objects to
 *   remove
 * @throws Error when a set is to be removed while somebody claims its elements
 */
export function nextBatch(sources: PlanSources, limit: number): Batch {
  const tables = tablesToChange(sources);
  const work = tables.reduce((sum, table) => sum + preparationWork(table, limit), 0);
  if (work > limit || tables.some(mustComeBefore)) {
    const room = new Room(limit);
    const slice = tables.map((table) => preparation(table, room));
    return { tables: slice, following: work > limit ? "in another turn" : "at once" };
  }
  const going = tables.reduce((sum, table) => sum + removalWork(table, limit), 0);
  const isInForce = tables.every(isAllInForce);
  if (going <= limit && (isInForce || !tables.map(mustGoBehind).includes(true))) {
    return { tables: tables.map((table) => inForce(table, true)), following: "nothing" };
  }
  if (!isInForce) return { tables: tables.map((table) => inForce(table, false)), following: "in another turn" };
  const room = new Room(limit);
  return { tables: tables.map((table) => removal(table, room)), following: "in another turn" };
}

function tablesToChange({
  tables,
  objects,
  elements,
  mirror: mirrors,
  pending: allPending,
}: PlanSources): TableSources[] {
  const found: TableSources[] = [];
  for (const table of tables) {
    const key = tableKey(table);
    const mirror = mirrors.table(key);
    const pending = allPending.table(key);
    const isPending = pending.elements.size + pending.sets.size + pending.chains.size > 0;
    if (isPending || mirror.state !== "ours") found.push({ table, key, objects, elements, mirror, pending });
  }
  return found;
}

/** Whether only objects to be removed are pending. */
function isAllInForce({ key, objects, mirror, pending }: TableSources): boolean {
  if (mirror.state !== "ours" || pending.elements.size > 0) return false;
  for (const name of pending.sets) if (objects.set(key, name) !== undefined) return false;
  for (const name of pending.chains) if (objects.chain(key, name) !== undefined) return false;
  return true;
}

function inForce(sources: TableSources, withRemoval: boolean): TableBatch {
  const { table, key, objects, mirror, pending } = sources;
  if (mirror.state === "ours" && pending.sets.size + pending.chains.size === 0) {
    return {
      ...emptyBatch(table),
      isInForce: true,
      differences: elementDifferences(sources),
      compared: pending.elements,
    };
  }
  const addedSets: SetDefinition[] = [];
  for (const name of pending.sets) {
    const set = objects.set(key, name);
    if (set !== undefined && !mirror.sets.has(name)) addedSets.push(set);
  }
  const addedChains: Chain[] = [];
  const writtenChains: Chain[] = [];
  const flushedChains: string[] = [];
  for (const name of pending.chains) {
    const chain = objects.chain(key, name);
    const state = mirror.chains.get(name);
    if (chain === undefined || state === "ours") continue;
    // A chain that was added without rules is flushed as well: another program may have added rules to it since.
    if (state === undefined) addedChains.push(chain);
    else flushedChains.push(name);
    writtenChains.push(chain);
  }
  const unread = unreadSets(sources);
  const removed = withRemoval ? removal(sources, new Room(Infinity)) : emptyBatch(table);
  return {
    ...removed,
    isInForce: true,
    isWhole: mirror.state === "unfit" || mirror.state === "absent",
    isReplaced: mirror.state === "unfit",
    isAdded: mirror.state !== "ours",
    addedSets,
    addedChains,
    flushedChains: [...flushedChains, ...removed.flushedChains],
    writtenChains,
    flushedSets: [...unread, ...removed.flushedSets],
    differences: [
      ...elementDifferences(sources, unread),
      ...[...addedSets, ...unread].flatMap((set) => allElements(sources, set)),
    ],
    compared: pending.elements,
    kept: mirror.kept.size === 0 ? [] : keptElements(sources),
  };
}

/** Sets that are desired now but were not when the table was read, so that their elements are not known. */
function unreadSets({ key, objects, mirror, pending }: TableSources): ReadonlySet<SetDefinition> {
  const found = new Set<SetDefinition>();
  for (const name of pending.sets) {
    const set = objects.set(key, name);
    if (set !== undefined && mirror.sets.get(name)?.isUnread === true && !isWrittenByRules(set)) found.add(set);
  }
  return found;
}

/** Returns the differences in existing sets. @param others the sets that are written completely */
function elementDifferences(
  sources: TableSources,
  others: ReadonlySet<SetDefinition> = new Set(),
): readonly SetDifference[] {
  const { table, key, objects, elements, mirror, pending } = sources;
  const differences: SetDifference[] = [];
  for (const [name, keys] of pending.elements) {
    const set = objects.set(key, name);
    if (set === undefined) {
      checkUnclaimed(sources, name);
      continue;
    }
    const present = mirror.sets.get(name);
    if (isWrittenByRules(set) || present === undefined || others.has(set)) continue;
    differences.push(setDifference(table, set, present.elements, elements.in(key, name), keys));
  }
  return differences;
}

function allElements({ table, key, elements }: TableSources, set: SetDefinition): readonly SetDifference[] {
  const content = isWrittenByRules(set) ? new Map<string, PackedElement>() : elements.elements(key, set.name);
  if (content.size === 0) return [];
  return [
    {
      table,
      set,
      deleted: [],
      added: [...content].map(([text, element]) => elementOf(text, element)),
      addedKeys: [...content.keys()],
      addedKept: [...content.values()],
      content,
    },
  ];
}

function keptElements({ key, objects, mirror }: TableSources): TableBatch["kept"] {
  return [...mirror.kept].flatMap(([name, elements]) => {
    const set = objects.set(key, name);
    return set === undefined ? [] : [{ set, elements }];
  });
}
