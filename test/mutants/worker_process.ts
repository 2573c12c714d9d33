import { type ChildProcess, fork } from "node:child_process";
import { readFileSync } from "node:fs";
import process from "node:process";
import { fileURLToPath } from "node:url";
import type { Answer, Load, Run } from "./worker.ts";

const WORKER = fileURLToPath(new URL("./worker.ts", import.meta.url));
const CACHE = fileURLToPath(new URL("../../node_modules/.cache/mutants", import.meta.url));

/** A worker has ended, or took too long. */
export class WorkerEnd extends Error {
  override readonly name = "WorkerEnd";
}

/** A process that loads tests once and runs them again and again, each time with another mutation or with none. */
export class WorkerProcess implements Disposable {
  readonly #child: ChildProcess;
  #errors = "";
  #hasEnded = false;

  constructor() {
    this.#child = fork(WORKER, {
      stdio: ["ignore", "ignore", "pipe", "ipc"],
      execArgv: ["--no-warnings"],
      env: { ...process.env, NODE_COMPILE_CACHE: CACHE },
    });
    this.#child.stderr?.on("data", (data) => {
      this.#errors = `${this.#errors}${String(data)}`.slice(-2000);
    });
    this.#child.on("exit", () => {
      this.#hasEnded = true;
    });
  }

  /**
   * Has the worker load or run tests.
   *
   * @param seconds the most processor time that it may take; it may wait for ten times as long
   * @throws WorkerEnd when it ends or takes longer; it is then of no more use
   */
  async ask(message: Load | Run, seconds: number): Promise<Answer> {
    const child = this.#child;
    if (this.#hasEnded) throw new WorkerEnd(this.#errors);
    const { promise, resolve, reject } = Promise.withResolvers<Answer>();
    const last = performance.now() + seconds * 10_000;
    const most = processorSeconds(child) + seconds;
    const watch = setInterval(() => {
      if (processorSeconds(child) > most || performance.now() > last) reject(new WorkerEnd("it took too long"));
    }, 100);
    const onExit = (): void => reject(new WorkerEnd(this.#errors));
    child.once("message", resolve).once("exit", onExit);
    child.send(message);
    try {
      return await promise;
    } finally {
      clearInterval(watch);
      child.off("message", resolve).off("exit", onExit);
    }
  }

  [Symbol.dispose](): void {
    this.#child.kill("SIGKILL");
  }
}

/** Returns the processor time that a process has taken, 0 when it has ended. */
function processorSeconds({ pid }: ChildProcess): number {
  try {
    const [, fields = ""] = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ");
    const [user = 0, system = 0] = fields.split(" ").slice(11, 13).map(Number);
    return (user + system) / 100;
  } catch {
    return 0;
  }
}
