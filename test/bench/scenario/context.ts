import type { Contestant, Place } from "../contestant.ts";
import type { Measured } from "../row.ts";

/** The parts that a scenario works with. */
export interface Context extends Place {
  /** The shim, whose plugin server listens when a scenario begins. */
  readonly ours: Required<Contestant>;
  /** The plugin that the shim executes where there is no server. */
  readonly cold: Contestant;
  readonly peer: Contestant;
  /** The number of pairs. */
  readonly pairs: number;
  /** Reports the progress. */
  progress(step: string): void;
}

/** A scenario measures one thing, or a few that come from the same calls. */
export interface Scenario {
  /** The name for `--only`. */
  readonly name: string;
  run(context: Context): readonly Measured[];
}
