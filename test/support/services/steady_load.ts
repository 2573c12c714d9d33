import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import process from "node:process";
import { fileURLToPath } from "node:url";
import * as v from "valibot";
import type { LabNamespace } from "../../lab/namespace.ts";

const PROGRAM = fileURLToPath(new URL("load_main.ts", import.meta.url));

/** The destination of a load. */
export interface LoadTarget {
  readonly host: string;
  readonly port: number;
}

const reportSchema = v.strictObject({
  /** The number of messages that came back, for each long flow. */
  exchanges: v.array(v.number()),
  /** The number of new connections, in all and a second. */
  opened: v.number(),
  perSecond: v.number(),
  answered: v.number(),
  /** The longest time in milliseconds from the connect to the answer. */
  longest: v.number(),
  /** The number of errors by their message and the connection's destination. */
  failures: v.record(v.string(), v.number()),
  /** The numbers of new connections and of long flows without an answer ten seconds after the load has ended. */
  unanswered: v.number(),
  stuck: v.number(),
});

/** The report of a load. */
export type LoadReport = v.InferOutput<typeof reportSchema>;

const knocksSchema = v.strictObject({ attempts: v.number(), answered: v.number() });

/** The numbers of attempts to connect where it is denied, and of those that succeeded. */
export type Knocks = v.InferOutput<typeof knocksSchema>;

/** Reads the numbers that a knocking process has printed at its end. */
export function readKnocks(text: string): Knocks {
  return v.parse(knocksSchema, JSON.parse(text));
}

/** Reads the report that a load has printed at its end. */
export function readReport(text: string): LoadReport {
  return v.parse(reportSchema, JSON.parse(text));
}

/** A program that runs beside the test in a process of its own, so that waits of the test do not delay it. */
export class SteadyProcess {
  readonly #child: ChildProcess;
  readonly #lines: AsyncIterator<string>;

  private constructor(child: ChildProcess, lines: AsyncIterator<string>) {
    this.#child = child;
    this.#lines = lines;
  }

  /** Starts a program in a namespace, and resolves when it is ready. */
  static async start(namespace: LabNamespace, args: readonly string[]): Promise<SteadyProcess> {
    const child = namespace.inside(() =>
      spawn(process.execPath, [PROGRAM, ...args], { stdio: ["pipe", "pipe", "inherit"] }),
    );
    const started = new SteadyProcess(child, createInterface(child.stdout)[Symbol.asyncIterator]());
    await started.#line();
    return started;
  }

  /** Ends the program. @returns the line that it printed at the end */
  async end(): Promise<string> {
    this.#child.stdin?.end();
    const line = await this.#line();
    this.kill();
    return line;
  }

  async #line(): Promise<string> {
    const line = await this.#lines.next();
    if (line.done === true) throw new Error(`${this.#child.spawnargs.join(" ")}: the process has ended`);
    return line.value;
  }

  /** Kills the program at once. */
  kill(): void {
    this.#child.kill("SIGKILL");
  }
}
