import { randomFrom } from "../support/random.ts";

/** The files of a run, in the order in which they are started. */
export interface Plan {
  /** Run in several processes at once. */
  readonly together: readonly string[];
  /** Run one after another when nothing else runs any more. */
  readonly exclusive: readonly string[];
}

/**
 * The folder of the test files that run while no other does: they measure time, load the processor, or use what the machine has
 * only once (test/README.md lists it).
 */
const EXCLUSIVE = "test/exclusive/";

/** Returns the order of the files: random, so that no file comes to depend on another, and the same for one seed. */
export function planRun(files: readonly string[], seed: number): Plan {
  const order = shuffled(files.toSorted(), seed);
  return {
    together: order.filter((file) => !file.startsWith(EXCLUSIVE)),
    exclusive: order.filter((file) => file.startsWith(EXCLUSIVE)),
  };
}

function shuffled(files: readonly string[], seed: number): readonly string[] {
  const random = randomFrom(seed);
  return files
    .map((file) => ({ file, place: random() }))
    .toSorted((a, b) => a.place - b.place)
    .map(({ file }) => file);
}
