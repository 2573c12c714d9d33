import { setFlagsFromString } from "node:v8";

/** When V8 begins to mark what of the heap is in use, which goes on beside the program. */
export interface MarkingPace {
  /** Soon, so that little is left to mark when the heap has grown as far as it may: everything else waits for that. */
  hurry(): void;
  /** When V8 likes it, with the least work. */
  rest(): void;
}

/** How much of what the heap may grow by it grows until then, in percent; 0 leaves it to V8, which begins much later. */
const HURRIED = 25;
const AT_REST = 0;

/** That of this process; the flag counts from when it is set (IncrementalMarkingLimitReached of V8's heap.cc). */
export function v8MarkingPace(set: (flags: string) => void = setFlagsFromString): MarkingPace {
  let current = AT_REST;
  const change = (percent: number): void => {
    if (percent === current) return;
    current = percent;
    set(`--incremental-marking-hard-trigger=${percent}`);
  };
  return { hurry: () => change(HURRIED), rest: () => change(AT_REST) };
}
