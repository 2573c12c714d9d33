import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync, readFileSync } from "node:fs";
import path from "node:path";
import type { Lab } from "../../lab/lab.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import { until } from "../until.ts";

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
    await until(
      () => this.#child.exitCode !== null || pattern.test(this.log),
      () => this.log,
    );
    assert.match(this.log, pattern, this.#name);
  }

  /** Ends the program as a kubelet does, and waits for its end. */
  async stop(): Promise<void> {
    this.#child.kill("SIGTERM");
    await this.#ended;
  }
}
