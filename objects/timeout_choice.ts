import type { Service } from "./model.ts";

/**
 * The most different timeouts that the rules of a node hold at once. Each has chains of its own, since the kernel takes
 * an element's timeout only as a constant of a rule, and its number has to fit into `DURATION_BITS`
 * (rules/priority_number.ts).
 */
export const MOST_TIMEOUTS = 127;

const MINUTE = 60;
const HOUR = 3600;

/** Returns the timeout that a Service needs rules for; undefined if its clients do not stay or it has no address. */
export function usedTimeout({
  affinitySeconds,
  clusterIps,
}: Pick<Service, "affinitySeconds" | "clusterIps">): number | undefined {
  return clusterIps.length === 0 ? undefined : affinitySeconds;
}

/**
 * Returns the timeouts that clients can stay for, ascending: all that are in use, up to {@link MOST_TIMEOUTS} (SA-02).
 * Of more than that it retains the shortest one, so that each of the others has a shorter one, then whole hours, whole
 * minutes and the rest, always the shorter first. So a tenant who uses many odd timeouts does not shorten the usual
 * ones of others.
 *
 * The result depends only on which timeouts are in use: all nodes retain the same ones, before and after a restart.
 */
export function keptTimeouts(inUse: Iterable<number>): readonly number[] {
  const all = [...new Set(inUse)].sort(ascending);
  if (all.length <= MOST_TIMEOUTS) return all;
  const [shortest = 0, ...others] = all;
  others.sort((a, b) => rankOf(a) - rankOf(b) || a - b);
  return [shortest, ...others.slice(0, MOST_TIMEOUTS - 1)].sort(ascending);
}

/**
 * Returns how long the clients of a Service with the timeout `seconds` stay: exactly that long if this timeout is
 * retained, otherwise as long as the next shorter one that is.
 *
 * @param kept {@link keptTimeouts} of timeouts with this one among them
 */
export function timeoutFor(seconds: number, kept: readonly number[]): number {
  return kept.findLast((candidate) => candidate <= seconds) ?? seconds;
}

function rankOf(seconds: number): number {
  if (seconds % HOUR === 0) return 0;
  return seconds % MINUTE === 0 ? 1 : 2;
}

function ascending(a: number, b: number): number {
  return a - b;
}
