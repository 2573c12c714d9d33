import { openSync, readFileSync, readSync } from "node:fs";

/**
 * Returns how long a thread was ready so far and waited for a processor (`run_delay`,
 * Documentation/scheduler/sched-stats.rst), in milliseconds: because of other programs, or of the other threads of its
 * own. Time that the machine's host takes is not included.
 *
 * @param thread its directory in `/proc`; a process's own means its main thread
 */
export function waitedForProcessor(thread: string): number {
  return waitedIn(readFileSync(`/proc/${thread}/schedstat`, "latin1"));
}

/**
 * Returns a function that reads the waiting time of this thread, for frequent calls: it leaves next to nothing for V8
 * to collect.
 */
export function ownWait(): () => number {
  const descriptor = openSync("/proc/thread-self/schedstat", "r");
  const buffer = Buffer.alloc(128);
  return () => waitedIn(buffer.toString("latin1", 0, readSync(descriptor, buffer, 0, buffer.length, 0)));
}

function waitedIn(schedstat: string): number {
  const [, nanoseconds] = schedstat.split(" ");
  return Number(nanoseconds) / 1e6;
}
