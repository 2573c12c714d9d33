import type { SetName } from "../../kernel/nftables/encode/change.ts";
import { emptyBatch, type TableBatch } from "./batch.ts";
import type { TableSources } from "./batch_slices.ts";
import type { MirroredSet } from "./observed/mirror.ts";
import { removalsWork, type Room } from "./batch_work.ts";

/** Returns the work of removing what a table should no longer have. @param enough counting stops above this */
export function removalWork(sources: TableSources, enough: number): number {
  const { pending } = sources;
  if (pending.sets.size + pending.chains.size === 0) return 0;
  let count = 0;
  for (const names of [goingSets(sources), goingChains(sources)]) {
    for (const _ of names) if (removalsWork(++count) > enough) return removalsWork(count);
  }
  return removalsWork(count);
}

/**
 * Whether something is to be removed that has to exist one batch longer than what refers to it: a map. With the map,
 * the kernel hides its elements (nft_map_deactivate) from a packet that a commit overtakes on its way to them through
 * the old rules (test/kernel/overtaken_packets.test.ts). A chain, or a set without data, remains complete for it.
 *
 * @throws Error when somebody claims elements of a set that is to be removed: then nothing may be put in force
 */
export function mustGoBehind(sources: TableSources): boolean {
  let hasMap = false;
  for (const name of goingSets(sources)) {
    checkUnclaimed(sources, name);
    hasMap ||= sources.mirror.sets.get(name)?.data !== undefined;
  }
  return hasMap;
}

/**
 * Returns what is to be removed, as far as there is room: first all rules and elements that name chains and sets, then
 * the chains, then the sets.
 *
 * @throws Error when somebody claims elements of a set that is to be removed
 */
export function removal(sources: TableSources, room: Room): TableBatch {
  const { table, mirror } = sources;
  const fitting = (names: Iterable<string>): readonly string[] => [...room.fitting(names, () => removalsWork(1))];
  return {
    ...emptyBatch(table),
    flushedChains: fitting(chainsWithRules(sources)),
    flushedSets: fitting(namingMaps(sources)).map((name) => ({ name, data: "verdict" })),
    deletedChains: fitting(goingChains(sources)),
    deletedSets: fitting(goingSets(sources)).map((name) => ({ name, ...dataOf(mirror.sets.get(name)) })),
  };
}

function* chainsWithRules(sources: TableSources): Generator<string> {
  for (const name of goingChains(sources)) if (sources.mirror.chains.get(name) !== "empty") yield name;
}

/** Maps whose elements may jump to chains that are to be removed. */
function* namingMaps(sources: TableSources): Generator<string> {
  for (const name of goingSets(sources)) {
    checkUnclaimed(sources, name);
    const { data, isFlushed } = sources.mirror.sets.get(name) ?? {};
    if (data === "verdict" && isFlushed !== true) yield name;
  }
}

function dataOf(set: MirroredSet | undefined): Pick<SetName, "data"> {
  return set?.data === undefined ? {} : { data: set.data };
}

/** @throws Error when somebody claims elements of the set */
export function checkUnclaimed({ key, elements }: TableSources, set: string): void {
  if (elements.hasSet(key, set)) {
    throw new Error(`${key} ${set} is not provided any more; expected no claims of its elements`);
  }
}

function* goingSets({ key, objects, mirror, pending }: TableSources): Generator<string> {
  for (const name of pending.sets) {
    if (mirror.sets.has(name) && objects.set(key, name) === undefined) yield name;
  }
}

function* goingChains({ key, objects, mirror, pending }: TableSources): Generator<string> {
  for (const name of pending.chains) {
    if (mirror.chains.has(name) && objects.chain(key, name) === undefined) yield name;
  }
}
