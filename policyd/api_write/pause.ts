const SHORTEST_PAUSE = 1000;
const LONGEST_PAUSE = 60_000;

/**
 * Returns the milliseconds before the next attempt: doubled with each attempt in a row, at least what the server asks
 * for, at most a minute, plus up to a half more so that nodes do not retry all at once.
 *
 * @param attempts number in a row, including the last
 * @param retryAfter seconds
 * @param random from 0 up to 1
 */
export function pauseAfter(attempts: number, retryAfter: number | undefined, random: number): number {
  const doubled = Math.min(LONGEST_PAUSE, SHORTEST_PAUSE * 2 ** (attempts - 1));
  const asked = Math.min(LONGEST_PAUSE, (retryAfter ?? 0) * 1000);
  return Math.max(doubled, asked) * (1 + random / 2);
}
