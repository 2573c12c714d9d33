import { openSync, readFileSync, readSync } from "node:fs";

/**
 * How long a thread was ready so far and waited for a processor (`run_delay`, Documentation/scheduler/sched-stats.rst), in
 * milliseconds: because of other programs, or of the other threads of its own. What the machine's host takes is no part of it.
 *
 * @param thread its directory in `/proc`; a process's own means its main thread
 */
export function waitedForProcessor(thread: string): number {
  return waitedIn(readFileSync(`/proc/${thread}/schedstat`, "latin1"));
}

/** The same of this thread, for one who asks all the time: looking leaves next to nothing for V8 to collect. */
export function ownWait(): () => number {
  const descriptor = openSync("/proc/thread-self/schedstat", "r");
  const buffer = Buffer.alloc(128);
  return () => waitedIn(buffer.toString("latin1", 0, readSync(descriptor, buffer, 0, buffer.length, 0)));
}

function waitedIn(schedstat: string): number {
  const [, nanoseconds] = schedstat.split(" ");
  return Number(nanoseconds) / 1e6;
}
