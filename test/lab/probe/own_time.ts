import { readFileSync } from "node:fs";

const NANOSECONDS_PER_MILLISECOND = 1e6;

/**
 * Milliseconds that only count while this process's main thread runs or sleeps: the time in which it was ready and waited for a
 * processor is left out. A wait that ends by it is as long on a busy machine as on an idle one.
 *
 * The second figure of /proc/PID/schedstat is that time in nanoseconds (kernel, Documentation/scheduler/sched-stats.rst).
 */
export function ownTime(): number {
  return performance.now() - waitedIn(readFileSync("/proc/self/schedstat", "latin1"));
}

/** The milliseconds of waiting in the text of /proc/PID/schedstat; 0 where the kernel counts none. */
export function waitedIn(schedstat: string): number {
  return Number(schedstat.split(" ")[1] ?? 0) / NANOSECONDS_PER_MILLISECOND;
}
