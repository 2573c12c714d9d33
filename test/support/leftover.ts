import { readFileSync, readdirSync } from "node:fs";
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";

/** A child process that outlived the tests. */
export interface Leftover {
  readonly pid: number;
  readonly commandLine: string;
}

/**
 * Returns the child processes of this one that are still running after a grace period for those that were just asked to
 * end.
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

/** Kills processes at once, without waiting for their end. */
export function endProcesses(processes: readonly Pick<Leftover, "pid">[]): void {
  for (const { pid } of processes) {
    try {
      process.kill(pid, "SIGKILL");
    } catch {
      // The process has ended by itself.
    }
  }
}

/** Whether the text of /proc/PID/stat belongs to a process that has ended and only waits for its parent. */
export function hasEnded(stat: string): boolean {
  // The command in parentheses may contain anything, also parentheses.
  return /^ [ZX] /.test(stat.slice(stat.lastIndexOf(")") + 1));
}

/** Returns the running children of all threads: a child belongs to the thread that started it. */
function runningChildren(): readonly Leftover[] {
  const threads = readdirSync("/proc/self/task");
  const pids = threads.flatMap((thread) => read(`/proc/self/task/${thread}/children`).split(" ").filter(Boolean));
  return pids
    .filter((pid) => !hasEnded(read(`/proc/${pid}/stat`)))
    .map((pid) => ({ pid: Number(pid), commandLine: read(`/proc/${pid}/cmdline`).replaceAll("\0", " ").trim() }))
    .filter(({ commandLine }) => commandLine !== "");
}

/** Reads a file; returns "" when the process or thread has ended. */
function read(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return "";
  }
}
