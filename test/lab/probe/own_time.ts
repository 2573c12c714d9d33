import { readFileSync } from "node:fs";

const NANOSECONDS_PER_MILLISECOND = 1e6;

/**
 * Returns the milliseconds in which this process's main thread ran or slept, without those in which it was ready and
 * waited for a processor. So a wait measured by it is as long on a busy machine as on an idle one.
 *
 * The second figure of /proc/PID/schedstat is the waiting time in nanoseconds (kernel,
 * Documentation/scheduler/sched-stats.rst).
 */
export function ownTime(): number {
  return performance.now() - waitedIn(readFileSync("/proc/self/schedstat", "latin1"));
}

/** Returns the milliseconds of waiting in the text of /proc/PID/schedstat; 0 if the kernel does not count them. */
function waitedIn(schedstat: string): number {
  return Number(schedstat.split(" ")[1] ?? 0) / NANOSECONDS_PER_MILLISECOND;
}
