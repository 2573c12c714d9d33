import { type ChildProcess, fork } from "node:child_process";
import process from "node:process";
import { fileURLToPath } from "node:url";
import type { FileResult } from "./result.ts";
import type { Assignment } from "./worker.ts";

const WORKER = fileURLToPath(new URL("worker.ts", import.meta.url));
/**
 * Where Node keeps the compiled code of the tests and of the programs that they start. Otherwise a source of ours that
 * runs as a program costs 0.4 s of a processor, and each start of the daemon 0.15 s more.
 */
const COMPILE_CACHE = fileURLToPath(new URL("../../node_modules/.cache/tests", import.meta.url));
/** Milliseconds that a process may take to end once it has nothing more to do, on a machine that runs other tests. */
const LONGEST_END = 30_000;
/**
 * A process with more memory is replaced by a new one. Each program that a test starts costs the kernel a copy of the
 * process's page tables (fork): with 600 MB this took 40 % of a run's processor time.
 */
const MOST_MEGABYTES = 250;

/** The result of a file that has ended. */
export interface Finished extends FileResult {
  /** The text that its tests have printed. */
  readonly output: string;
}

/**
 * Runs test files in a number of processes at once, each of which takes the next file when it has finished one.
 *
 * A process that dies counts as a problem of the file that it ran, and another one takes its place.
 *
 * @param assignments in the order in which they are started
 * @param onFinished is called for each file as soon as it has ended
 * @param longestEnd how long a process may take to end once it has nothing more to do, in milliseconds
 * @returns problems that belong to no file
 */
export async function runFiles(
  assignments: readonly Assignment[],
  processes: number,
  onFinished: (finished: Finished) => void,
  longestEnd: number = LONGEST_END,
): Promise<readonly string[]> {
  const waiting = [...assignments];
  const serve = async (): Promise<readonly string[]> => {
    const problems: string[] = [];
    while (waiting.length > 0) {
      const worker = new Worker();
      for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
        const finished = await worker.run(next);
        onFinished(finished);
        if (worker.hasEnded || finished.megabytes > MOST_MEGABYTES) break;
      }
      const problem = await worker.end(longestEnd);
      if (problem !== undefined) problems.push(problem);
    }
    return problems;
  };
  const count = Math.min(processes, assignments.length);
  return (await Promise.all(Array.from({ length: count }, serve))).flat();
}

const SIGNALS: readonly NodeJS.Signals[] = ["SIGINT", "SIGTERM", "SIGHUP"];
const children = new Set<ChildProcess>();

/** Passes a signal on to the processes, which remove their labs, and ends this one by it. */
function onSignal(signal: NodeJS.Signals): void {
  for (const child of children) child.kill(signal);
  for (const handled of SIGNALS) process.off(handled, onSignal);
  process.kill(process.pid, signal);
}

for (const signal of SIGNALS) process.on(signal, onSignal);

/** A process that runs one file at a time. */
class Worker {
  readonly #child: ChildProcess;
  readonly #exit: Promise<string>;
  #output = "";
  hasEnded = false;

  constructor() {
    const env = { ...process.env, NODE_COMPILE_CACHE: COMPILE_CACHE };
    this.#child = fork(WORKER, { env, stdio: ["ignore", "pipe", "pipe", "ipc"] });
    children.add(this.#child);
    for (const stream of [this.#child.stdout, this.#child.stderr]) {
      stream?.setEncoding("utf8").on("data", (text: string) => (this.#output += text));
    }
    this.#exit = new Promise((resolve) => {
      this.#child.once("exit", (code, signal) => {
        this.hasEnded = true;
        children.delete(this.#child);
        resolve(signal ?? `exit code ${String(code)}`);
      });
    });
  }

  /** Runs a file; its result says so if the process ends meanwhile. */
  async run(assignment: Assignment): Promise<Finished> {
    const start = performance.now();
    const answer = new Promise<FileResult>((resolve) => this.#child.once("message", resolve));
    this.#child.send(assignment);
    const end = this.#exit.then((how): FileResult => {
      const milliseconds = Math.round(performance.now() - start);
      const problems = [`the process that ran it ended: ${how}`];
      return {
        file: assignment.file,
        tests: [],
        problems,
        longForms: [],
        milliseconds,
        processorMilliseconds: 0,
        megabytes: 0,
      };
    });
    const result = await Promise.race([answer, end]);
    this.#child.removeAllListeners("message");
    const output = this.#output;
    this.#output = "";
    return { ...result, output };
  }

  /** Ends the process, and returns a problem if something that a test has left open keeps it from ending. */
  async end(longestEnd: number): Promise<string | undefined> {
    if (this.hasEnded) return undefined;
    this.#child.disconnect();
    let problem: string | undefined;
    const timer = setTimeout(() => {
      problem = `a process of the tests does not end: a test has left something open: ${this.#output.trim()}`;
      this.#child.kill("SIGKILL");
    }, longestEnd);
    await this.#exit;
    clearTimeout(timer);
    return problem;
  }
}
