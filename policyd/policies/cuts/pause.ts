/** If possible, a change is checked within this time, a running round and the pause included. */
const IN_TIME_MILLISECONDS = 100;
/** A pause of this many rounds leaves them one eighth of a processor. */
const TIMES_THE_ROUND = 7;
/** The longest pause that is longer than its round. */
const LONGEST_MILLISECONDS = 1000;

/** Milliseconds for which the kernel's connections are not read after a round through them. */
export interface Pause {
  /** Before a round with connections that the last one did not check. */
  readonly others: number;
  /** Before a round with only those that it did check. */
  readonly again: number;
}

/**
 * Returns the pause after a round.
 *
 * For each list the kernel visits every bucket of the machine's table without giving up the processor, however few
 * connections there are: 9 ms for 262,144 buckets. A node must not spend its time on that while pods come and go. A round
 * through the many connections of one pod takes longer than a change is to wait: whoever changes its policies all the time
 * waits so long that an eighth of a processor suffices, and the connections of others wait as long as the round at most.
 *
 * @param taken milliseconds of the round
 */
export function pauseAfter(taken: number): Pause {
  const rest = TIMES_THE_ROUND * taken;
  const left = IN_TIME_MILLISECONDS - 2 * taken;
  if (left >= taken) return { others: Math.min(rest, left), again: Math.min(rest, left) };
  return { others: taken, again: Math.max(taken, Math.min(rest, LONGEST_MILLISECONDS)) };
}
