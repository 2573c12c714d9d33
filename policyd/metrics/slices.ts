import { setImmediate as eventsAreTold } from "node:timers/promises";

/** So long at most is the event loop kept, but for a single step. */
const SLICE_MILLISECONDS = 4;

/** Takes one step after the other, and lets everything else have its turn in between. */
export async function inSlices<T>(steps: Iterable<T>, take: (step: T) => void): Promise<void> {
  let end = performance.now() + SLICE_MILLISECONDS;
  for (const step of steps) {
    take(step);
    if (performance.now() < end) continue;
    await eventsAreTold();
    end = performance.now() + SLICE_MILLISECONDS;
  }
}
