import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import process from "node:process";
import { LineSplitter } from "../line_splitter.ts";
import { LONGEST_FOLLOWED, type ProgramResult, type Programs, STOPPING } from "./programs.ts";

/** The characters retained from the end of a program's standard error. */
const LONGEST_WORDS = 4096;

/** The process groups of the programs that run. */
const groups = new Set<number>();

/**
 * Runs programs of this machine, each in its own process group, which is killed when a bound is reached, and when a
 * signal ends this process.
 */
export const systemPrograms: Omit<Programs, "onStop"> = {
  run: (command, args, { milliseconds, bytes }, input) =>
    new Promise((resolve) => {
      const output: Buffer[] = [];
      let length = 0;
      const { stop } = start(command, args, {
        input,
        onOutput: (chunk) => {
          length += chunk.length;
          if (length > bytes) stop({ type: "too much" });
          else output.push(chunk);
        },
        onEnd: (result) => {
          clearTimeout(timer);
          const text = (): string => Buffer.concat(output).toString("utf8");
          resolve(result.type === "printed" || result.type === "failed" ? { ...result, output: text() } : result);
        },
      });
      const timer = setTimeout(() => stop({ type: "too long" }), milliseconds);
    }),
  follow: (command, args, onLine) =>
    new Promise((resolve, reject) => {
      const splitter = new LineSplitter();
      const { stop } = start(command, args, {
        onOutput: (chunk) => {
          try {
            for (const line of splitter.push(chunk)) onLine(line);
          } catch (error) {
            reject(error);
            stop({ type: "too much" });
          }
          if (splitter.pending > LONGEST_FOLLOWED) stop({ type: "too much" });
        },
        onEnd: resolve,
      });
    }),
  endAll: async () => groups.forEach(killGroup),
};

/** The receivers of a running program's output and end. */
interface Followed {
  readonly input?: string | undefined;
  readonly onOutput: (chunk: Buffer) => void;
  /** Called once; a printed result has an empty output here. */
  readonly onEnd: (result: ProgramResult) => void;
}

function start(
  command: string,
  args: readonly string[],
  { input, onOutput, onEnd }: Followed,
): { readonly stop: (result: ProgramResult) => void } {
  const child = spawnGroup(command, args);
  // A program that ends without reading its input needs no error of its own.
  child.stdin.on("error", () => {}).end(input);
  let words = "";
  let hasEnded = false;
  const end = (result: ProgramResult): void => {
    if (!hasEnded) onEnd(result);
    hasEnded = true;
  };
  child.stdout.on("data", (chunk: Buffer) => {
    if (!hasEnded) onOutput(chunk);
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    words = (words + text).slice(-LONGEST_WORDS);
  });
  child.on("error", (error) => {
    const isMissing = "code" in error && error.code === "ENOENT";
    end(isMissing ? { type: "missing" } : { type: "failed", how: error.message, words });
  });
  child.on("close", (code, signal) => {
    if (child.pid !== undefined) ended(child.pid);
    if (code === 0) end({ type: "printed", output: "" });
    else end({ type: "failed", how: signal === null ? `exit code ${code}` : `signal ${signal}`, words });
  });
  const stop = (result: ProgramResult): void => {
    killGroup(child.pid);
    end(result);
  };
  return { stop };
}

/** Starts a program. Signals are listened to before: between, one would end this process and leave the program. */
function spawnGroup(command: string, args: readonly string[]): ChildProcessWithoutNullStreams {
  if (groups.size === 0) for (const signal of STOPPING) process.on(signal, endBy);
  try {
    const child = spawn(command, args, { stdio: ["pipe", "pipe", "pipe"], detached: true });
    if (child.pid !== undefined) groups.add(child.pid);
    return child;
  } finally {
    unlistenIfIdle();
  }
}

function ended(pid: number): void {
  groups.delete(pid);
  unlistenIfIdle();
}

/** Leaves signals to their default actions while no program runs. */
function unlistenIfIdle(): void {
  if (groups.size === 0) for (const signal of STOPPING) process.off(signal, endBy);
}

/** Ends this process and all programs by a signal. A command that listens to signals itself cleans up with programs. */
function endBy(signal: NodeJS.Signals): void {
  if (process.listenerCount(signal) > 1) return;
  groups.forEach(killGroup);
  process.off(signal, endBy);
  process.kill(process.pid, signal);
}

/** Kills the program and all processes that it started. */
function killGroup(pid: number | undefined): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // The program has already ended.
  }
}
