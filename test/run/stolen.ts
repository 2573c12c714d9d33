import { readFileSync } from "node:fs";

/** /proc/stat counts in hundredths of a second, on every architecture (USER_HZ). */
const MILLISECONDS_PER_TICK = 10;

/**
 * The eighth figure of the line of all processors: the time in which one was wanted and the host gave it to another
 * machine (proc(5)).
 */
const STEAL = /^cpu +(?:\d+ ){7}(?<ticks>\d+)/m;

/**
 * Returns the milliseconds of processor time that the host has taken from this machine since its start, from the text
 * of /proc/stat; 0 if it does not say.
 */
export function stolenIn(stat: string): number {
  return Number(STEAL.exec(stat)?.groups?.["ticks"] ?? 0) * MILLISECONDS_PER_TICK;
}

/** Returns the current value of {@link stolenIn}. */
export function stolenMilliseconds(): number {
  return stolenIn(readFileSync("/proc/stat", "utf8"));
}
