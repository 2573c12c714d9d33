import { spawn, spawnSync } from "node:child_process";
import { openSync } from "node:fs";
import process from "node:process";

/** A program that ended with an error; the message has the end of its output. */
export class ProgramError extends Error {
  override readonly name = "ProgramError";
}

export interface RunOptions {
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly input?: string;
  /** Milliseconds; no limit when absent. */
  readonly timeout?: number;
}

const MOST_OUTPUT = 256 * 1024 * 1024;
const SHOWN_OF_A_FAILURE = 4000;

/**
 * Runs a program to its end.
 *
 * @returns its standard output
 * @throws ProgramError when it cannot be started, ends with another code than 0, or takes too long
 */
export function run(program: string, args: readonly string[], options: RunOptions = {}): string {
  const { env = {}, ...rest } = options;
  const { status, signal, error, stdout, stderr } = spawnSync(program, args, {
    ...rest,
    env: { ...process.env, ...env },
    encoding: "utf8",
    maxBuffer: MOST_OUTPUT,
  });
  if (error !== undefined) throw new ProgramError(`${program}: ${error.message}`);
  if (status !== 0) {
    const output = `${stdout}${stderr}`.slice(-SHOWN_OF_A_FAILURE);
    throw new ProgramError(`${program} ${args.join(" ")} ended with ${status ?? signal}:\n${output}`);
  }
  return stdout;
}

/**
 * Starts a program that outlives this process.
 *
 * @param log the file to which its output is appended
 * @returns its process ID
 */
export function start(program: string, args: readonly string[], log: string): number {
  const output = openSync(log, "a");
  const child = spawn(program, args, { detached: true, stdio: ["ignore", output, output] });
  child.unref();
  if (child.pid === undefined) throw new ProgramError(`${program} cannot be started; is it installed?`);
  return child.pid;
}

/**
 * Repeats a question until it has an answer.
 *
 * @param what the name of the condition in an error
 * @param ask returns undefined for "not yet"; an error that it throws also means "not yet", and the final error
 *   includes the last one
 * @param seconds the longest time
 */
export async function until<T>(what: string, ask: () => T | undefined, seconds: number): Promise<T> {
  const end = performance.now() + seconds * 1000;
  let last: unknown;
  for (;;) {
    try {
      const answer = ask();
      if (answer !== undefined) return answer;
    } catch (error) {
      last = error;
    }
    if (performance.now() > end) {
      const reason = last instanceof Error ? `: ${last.message}` : "";
      throw new ProgramError(`${what}: not after ${seconds} s${reason}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
}
