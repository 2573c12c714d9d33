import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync, readFileSync } from "node:fs";
import path from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import type { Lab } from "../../lab/lab.ts";
import type { LabNamespace } from "../../lab/namespace.ts";

const PATIENCE_MILLISECONDS = 100_000;

let started = 0;

/** A server program of the machine that runs in a namespace until it is stopped, or the lab ends. */
export class Program {
  readonly #child: ChildProcess;
  readonly #ended: Promise<unknown>;
  readonly #name: string;
  readonly #logFile: string;

  /** @param file a program in PATH, or its path */
  constructor(lab: Lab, namespace: LabNamespace, file: string, args: readonly string[]) {
    this.#name = `${file} in ${namespace.name}`;
    this.#logFile = `${lab.scratch}/${path.basename(file)}-${++started}.log`;
    // The log goes into a file: a pipe that this process is too busy to read would block the server.
    const log = openSync(this.#logFile, "a");
    const child = namespace.inside(() => spawn(file, args, { cwd: "/", stdio: ["ignore", log, log] }));
    closeSync(log);
    this.#child = child;
    this.#ended = once(child, "exit");
    lab.atEnd(() => void child.kill("SIGKILL"));
  }

  /** Returns everything that the program has written so far. */
  get log(): string {
    return readFileSync(this.#logFile, "utf8");
  }

  /**
   * Waits until the program has written something. @throws Error when it ends first, or has not written it after a long
   * time
   */
  async written(pattern: RegExp): Promise<void> {
    const deadline = performance.now() + PATIENCE_MILLISECONDS;
    while (!pattern.test(this.log)) {
      if (this.#child.exitCode !== null || performance.now() > deadline) {
        throw new Error(`${this.#name} has not written ${pattern}: ${this.log}`);
      }
      await pause(5);
    }
  }

  /** Ends the program as a kubelet does, and waits for its end. */
  async stop(): Promise<void> {
    this.#child.kill("SIGTERM");
    await this.#ended;
  }
}
