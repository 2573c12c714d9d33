import type { Contestant, Place } from "../contestant.ts";
import type { Measured } from "../row.ts";

/** What a scenario is given. */
export interface Context extends Place {
  /** The shim, whose plugin server listens when a scenario begins. */
  readonly ours: Required<Contestant>;
  /** The plugin that the shim executes where there is no server. */
  readonly cold: Contestant;
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
