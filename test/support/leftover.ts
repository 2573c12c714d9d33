import { readFileSync, readdirSync } from "node:fs";
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";

/** A child process that outlived the tests. */
export interface Leftover {
  readonly pid: number;
  readonly commandLine: string;
}

/**
 * The child processes of this one that are still running after a grace for those just told to end.
 *
 * @param grace in milliseconds
 */
export async function leftoverProcesses(grace: number): Promise<readonly Leftover[]> {
  const deadline = performance.now() + grace;
  for (;;) {
    const children = runningChildren();
    if (children.length === 0 || performance.now() >= deadline) return children;
    await sleep(20);
  }
}

/** Ends processes that nobody waits for, at once. */
export function endProcesses(processes: readonly Pick<Leftover, "pid">[]): void {
  for (const { pid } of processes) {
    try {
      process.kill(pid, "SIGKILL");
    } catch {
      // It has ended by itself.
    }
  }
}

/** Whether the text of /proc/PID/stat is of a process that has ended and only waits for its parent to take note. */
export function hasEnded(stat: string): boolean {
  // The command in parentheses may hold anything, parentheses too.
  return /^ [ZX] /.test(stat.slice(stat.lastIndexOf(")") + 1));
}

/** A child belongs to the thread that started it, so all threads are asked. */
function runningChildren(): readonly Leftover[] {
  const threads = readdirSync("/proc/self/task");
  const pids = threads.flatMap((thread) => read(`/proc/self/task/${thread}/children`).split(" ").filter(Boolean));
  return pids
    .filter((pid) => !hasEnded(read(`/proc/${pid}/stat`)))
    .map((pid) => ({ pid: Number(pid), commandLine: read(`/proc/${pid}/cmdline`).replaceAll("\0", " ").trim() }))
    .filter(({ commandLine }) => commandLine !== "");
}

/** Empty when the process or thread is gone. */
function read(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return "";
  }
}
