/** The longest pause. If possible, a change is checked within this time, a running round and the pause included. */
const LONGEST_MILLISECONDS = 100;
/** A pause of this many rounds leaves them one eighth of a processor. */
const TIMES_THE_ROUND = 7;

/**
 * Returns how long the kernel's connections are not read after a round through them.
 *
 * For each list the kernel visits every bucket of the machine's table without giving up the processor, however few
 * connections there are: 9 ms for 262,144 buckets. A node must not spend its time on that while pods come and go.
 *
 * @param taken milliseconds of the round
 * @returns milliseconds; as long as the round if no more time is left in which a change is to be checked
 */
export function pauseAfter(taken: number): number {
  const inTime = Math.max(LONGEST_MILLISECONDS - 2 * taken, taken);
  return Math.min(TIMES_THE_ROUND * taken, inTime, LONGEST_MILLISECONDS);
}
