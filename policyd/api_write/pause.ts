const SHORTEST_PAUSE = 1000;
const LONGEST_PAUSE = 60_000;

/**
 * Milliseconds before another attempt: doubled with each in a row, no less than the server asks for, a minute at most; and up to
 * a half more, so that nodes do not come all at once.
 *
 * @param attempts in a row, the last included
 * @param retryAfter in seconds
 * @param random from 0 up to 1
 */
export function pauseAfter(attempts: number, retryAfter: number | undefined, random: number): number {
  const doubled = Math.min(LONGEST_PAUSE, SHORTEST_PAUSE * 2 ** (attempts - 1));
  const asked = Math.min(LONGEST_PAUSE, (retryAfter ?? 0) * 1000);
  return Math.max(doubled, asked) * (1 + random / 2);
}
