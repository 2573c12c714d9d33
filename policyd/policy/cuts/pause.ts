/** The longest pause; also in how much a change is judged, a round under way and the pause included, where that can be. */
const LONGEST_MILLISECONDS = 100;
/** One part in eight of a processor's time. */
const TIMES_THE_ROUND = 7;

/**
 * How long the kernel's connections are left alone after a round through them.
 *
 * For each list the kernel looks at every bucket of the machine's table and gives the processor to nobody meanwhile,
 * however few connections there are: 9 ms for 262,144 buckets. While pods come and go, that must not be what a node does.
 *
 * @param taken milliseconds of the round
 * @returns milliseconds; as long as the round where no more is left of the time in which a change is judged
 */
export function pauseAfter(taken: number): number {
  const inTime = Math.max(LONGEST_MILLISECONDS - 2 * taken, taken);
  return Math.min(TIMES_THE_ROUND * taken, inTime, LONGEST_MILLISECONDS);
}
