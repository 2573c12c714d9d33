import type { SetDifference } from "./difference.ts";

/** How the kernel came to have all that is desired. */
export interface Commit {
  /** All of it was compared with what the kernel had: at the start, after a failure, after somebody else's change. */
  readonly isWhole: boolean;
  /** What was changed, but for tables that were written as a whole. */
  readonly differences: readonly SetDifference[];
}
