import type { SetDifference } from "./difference.ts";

/** A commit after which the kernel has everything that is desired. */
export interface Commit {
  /** Everything was compared with the kernel: at the start, after a failure, after another program's change. */
  readonly isWhole: boolean;
  /** The changes, except to tables that were written as a whole. */
  readonly differences: readonly SetDifference[];
}
