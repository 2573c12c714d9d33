import { readdirSync, readFileSync } from "node:fs";

/** Returns the processor time so far of all threads of a process, in nanoseconds, as the kernel counts it exactly (sched_info of each). */
export function nanoseconds(pid: number | undefined): number {
  let sum = 0;
  for (const thread of readdirSync(`/proc/${pid}/task`)) {
    sum += Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, "latin1").split(" ")[0]);
  }
  return sum;
}
