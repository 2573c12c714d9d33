import process from "node:process";
import { setFlagsFromString } from "node:v8";

/** How V8 collects what of the heap is no longer in use, which goes on beside the program but for its end. */
export interface CollectionPace {
  /** So that everything else waits for it as little as it can, though the heap grows fast. */
  hurry(): void;
  /** With the least memory and the least work. */
  rest(): void;
}

const GROWTH = "--heap-growing-percent";
/** V8's default, for a process that was started without the option. */
const V8S_GROWTH = `${GROWTH}=0`;

/**
 * Marking begins when the heap has grown by a quarter of what it may, and that is eight times as much as at rest, so that next to
 * nothing is left to mark at the end.
 */
const HURRIED = `--incremental-marking-hard-trigger=25 ${GROWTH}=80`;

/**
 * That of this process. Flags count from when they are set (IncrementalMarkingLimitReached and MemoryController of V8's heap).
 *
 * @param options those Node was started with, which say how much the heap grows at rest
 */
export function v8CollectionPace(
  set: (flags: string) => void = setFlagsFromString,
  options: readonly string[] = process.execArgv,
): CollectionPace {
  const growth = options.findLast((option) => option.startsWith(`${GROWTH}=`)) ?? V8S_GROWTH;
  const resting = `--incremental-marking-hard-trigger=0 ${growth}`;
  let current = resting;
  const change = (flags: string): void => {
    if (flags === current) return;
    current = flags;
    set(flags);
  };
  return { hurry: () => change(HURRIED), rest: () => change(resting) };
}
