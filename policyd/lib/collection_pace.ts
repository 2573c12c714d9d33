import process from "node:process";
import { getHeapStatistics, setFlagsFromString } from "node:v8";

/** Controls how V8 collects garbage, which runs concurrently with the program except for its end. */
export interface CollectionPace {
  /** Delays other work as little as possible, even while the heap grows fast. */
  hurry(): void;
  /** Uses the least memory and work. */
  rest(): void;
}

const GROWTH = "--heap-growing-percent";
/** V8's default, for a process started without the option. */
const V8S_GROWTH = `${GROWTH}=0`;

/** The most by which the heap grows between two collections: all of it may be garbage. */
const MOST_GROWTH_BYTES = 32 * 1024 * 1024;

/**
 * Returns the flags by which a heap grows by up to 80 %, eight times as much as at rest, and a large one by up to 20 %.
 * Marking begins after a part of that, so that almost nothing is left to mark at the end.
 */
function hurried(heapBytes: number): string {
  // In large steps, so that the flags seldom change.
  const growth = Math.max(20, Math.min(80, Math.floor((5 * MOST_GROWTH_BYTES) / heapBytes) * 20));
  const begin = Math.min(50, Math.floor(2000 / growth));
  return `--incremental-marking-hard-trigger=${begin} ${GROWTH}=${growth}`;
}

/**
 * Returns the control of this process. Flags take effect when they are set (IncrementalMarkingLimitReached and
 * MemoryController of V8's heap).
 *
 * @param options Node's start options, which state the heap's growth at rest
 */
export function v8CollectionPace(
  set: (flags: string) => void = setFlagsFromString,
  options: readonly string[] = process.execArgv,
  heapBytes: () => number = () => getHeapStatistics().used_heap_size,
): CollectionPace {
  const growth = options.findLast((option) => option.startsWith(`${GROWTH}=`)) ?? V8S_GROWTH;
  const resting = `--incremental-marking-hard-trigger=0 ${growth}`;
  let current = resting;
  const change = (flags: string): void => {
    if (flags === current) return;
    current = flags;
    set(flags);
  };
  return { hurry: () => change(hurried(heapBytes())), rest: () => change(resting) };
}
