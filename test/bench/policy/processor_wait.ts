import { readFileSync } from "node:fs";

/**
 * How long a thread was ready so far and waited for a processor (`run_delay`, Documentation/scheduler/sched-stats.rst), in
 * milliseconds: because of other programs, or of the other threads of its own. What the machine's host takes is no part of it.
 *
 * @param thread its directory in `/proc`; a process's own means its main thread
 */
export function waitedForProcessor(thread: string): number {
  const [, nanoseconds] = readFileSync(`/proc/${thread}/schedstat`, "latin1").split(" ");
  return Number(nanoseconds) / 1e6;
}
