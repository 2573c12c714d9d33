import { type ConnectionSet, NOTHING } from "../connections/connection_set.ts";
import type { ClassifiedPod } from "../connections/pair_table.ts";
import { UnnamedPairs } from "../connections/unnamed_pairs.ts";
import type { End, Sides } from "./end_class.ts";

/** Recognizes pairs of pods whose connections are equal on both sides, without evaluating a rule. */
export class UnnamedEnds {
  readonly #before: UnnamedPairs;
  readonly #after: UnnamedPairs;

  constructor(sides: Sides) {
    this.#before = new UnnamedPairs(sides.before);
    this.#after = new UnnamedPairs(sides.after);
  }

  /**
   * Returns whether no rule of one pod names the other on either side, and both are as isolated as they were. Returns
   * false where rules have to be evaluated, and for nodes and addresses.
   */
  areAlike(source: End, destination: End): boolean {
    if (!isPod(source) || !isPod(destination)) return false;
    const before = between(this.#before, source.podBefore, destination.podBefore);
    return before !== undefined && before === between(this.#after, source.podAfter, destination.podAfter);
  }
}

function isPod({ podBefore, podAfter }: End): boolean {
  return podBefore !== undefined || podAfter !== undefined;
}

/** Returns the connections on one side, on which an absent pod has none; undefined if rules must be evaluated. */
function between(
  pairs: UnnamedPairs,
  source: ClassifiedPod | undefined,
  destination: ClassifiedPod | undefined,
): ConnectionSet | undefined {
  return source === undefined || destination === undefined ? NOTHING : pairs.between(source, destination);
}
