import type { Contestant, Place } from "../contestant.ts";
import type { Measured } from "../row.ts";

/** What a scenario is given. */
export interface Context extends Place {
  readonly ours: Contestant;
  readonly peer: Contestant;
  /** How many pairs to make. */
  readonly pairs: number;
  /** Says how far it is. */
  progress(step: string): void;
}

/** A scenario measures one thing, or a few that come from the same calls. */
export interface Scenario {
  /** What `--only` takes. */
  readonly name: string;
  run(context: Context): readonly Measured[];
}
