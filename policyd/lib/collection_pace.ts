import process from "node:process";
import { setFlagsFromString } from "node:v8";

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

/**
 * Marking begins when the heap has used a quarter of its allowed growth, which is eight times the growth at rest, so
 * that almost nothing is left to mark at the end.
 */
const HURRIED = `--incremental-marking-hard-trigger=25 ${GROWTH}=80`;

/**
 * Returns the control of this process. Flags take effect when they are set (IncrementalMarkingLimitReached and
 * MemoryController of V8's heap).
 *
 * @param options Node's start options, which state the heap's growth at rest
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
