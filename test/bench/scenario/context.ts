import type { Contestant, Place } from "../contestant.ts";
import type { Row } from "../row.ts";
import type { Progress } from "../subjects.ts";

/** The name of the peer in rows. */
export const PEER = "Go's plugins";

/** The parts that a scenario works with. */
export interface Context extends Place {
  readonly ours: Contestant;
  readonly peer: Contestant;
  /** The number of pairs. */
  readonly pairs: number;
  readonly progress: Progress;
}

/** A scenario measures one thing, or a few that come from the same calls. */
export type Scenario = (context: Context) => Promise<readonly Row[]> | readonly Row[];
