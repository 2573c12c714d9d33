import { spawn } from "node:child_process";
import process from "node:process";
import type { ProgramBounds, ProgramResult, Programs } from "./programs.ts";

/** The end of what a program says of its failure. */
const LONGEST_WORDS = 4096;

/** Programs of this machine, each in a process group of its own, all of which ends with it when a bound is met. */
export const systemPrograms: Programs = {
  run: (command, args, bounds) => new Promise((resolve) => start(command, args, bounds, resolve)),
};

function start(
  command: string,
  args: readonly string[],
  { milliseconds, bytes }: ProgramBounds,
  resolve: (result: ProgramResult) => void,
): void {
  const child = spawn(command, args, { stdio: ["ignore", "pipe", "pipe"], detached: true });
  const output: Buffer[] = [];
  let length = 0;
  let words = "";
  const end = (result: ProgramResult): void => {
    clearTimeout(timer);
    resolve(result);
  };
  const stop = (result: ProgramResult): void => {
    killGroup(child.pid);
    end(result);
  };
  const timer = setTimeout(() => stop({ type: "too long" }), milliseconds);
  child.stdout.on("data", (chunk: Buffer) => {
    length += chunk.length;
    if (length > bytes) stop({ type: "too much" });
    else output.push(chunk);
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    words = (words + text).slice(-LONGEST_WORDS);
  });
  child.on("error", (error) => {
    const isMissing = "code" in error && error.code === "ENOENT";
    end(isMissing ? { type: "missing" } : { type: "failed", how: error.message, words });
  });
  child.on("close", (code, signal) => {
    if (code === 0) end({ type: "printed", output: Buffer.concat(output).toString("utf8") });
    else end({ type: "failed", how: signal === null ? `exit code ${code}` : `signal ${signal}`, words });
  });
}

/** The program and all that it started. */
function killGroup(pid: number | undefined): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // It has ended by itself.
  }
}
