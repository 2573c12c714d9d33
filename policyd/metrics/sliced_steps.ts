import { setImmediate as eventsAreReported } from "node:timers/promises";

/** The longest time to block the event loop, except for a single step. */
const SLICE_MILLISECONDS = 4;

/** Runs one step after the other, and yields to the event loop between slices. */
export async function inSlices<T>(steps: Iterable<T>, take: (step: T) => void): Promise<void> {
  let end = performance.now() + SLICE_MILLISECONDS;
  for (const step of steps) {
    take(step);
    if (performance.now() < end) continue;
    await eventsAreReported();
    end = performance.now() + SLICE_MILLISECONDS;
  }
}
