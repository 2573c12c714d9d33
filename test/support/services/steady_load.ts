import type { ChildProcess } from "node:child_process";
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import process from "node:process";
import { fileURLToPath } from "node:url";
import * as v from "valibot";
import type { LabNamespace } from "../../lab/namespace.ts";

const PROGRAM = fileURLToPath(new URL("load_main.ts", import.meta.url));

/** Where a load goes. */
export interface LoadTarget {
  readonly host: string;
  readonly port: number;
}

const failedSchema = v.strictObject({
  host: v.string(),
  port: v.number(),
  /** Zero when it failed before it was made. */
  localPort: v.number(),
  error: v.string(),
  /** Milliseconds since the epoch. */
  beganAt: v.number(),
  failedAt: v.number(),
});

/** A new connection that failed. */
export type FailedConnection = v.InferOutput<typeof failedSchema>;

const reportSchema = v.strictObject({
  /** Messages that came back, of each long flow. */
  exchanges: v.array(v.number()),
  /** New connections, and how many in a second. */
  opened: v.number(),
  perSecond: v.number(),
  answered: v.number(),
  /** Milliseconds from the connect to the answer. */
  longest: v.number(),
  /** Errors by their words, and how many there were. */
  failures: v.record(v.string(), v.number()),
  /** The first new connections that failed. */
  failed: v.array(failedSchema),
  /** New connections, and long flows, without an answer ten seconds after the load has ended. */
  unanswered: v.number(),
  stuck: v.number(),
});

/** What a load met. */
export type LoadReport = v.InferOutput<typeof reportSchema>;

const knocksSchema = v.strictObject({ attempts: v.number(), answered: v.number() });

/** How often somebody tried to get in where it must not, and how often it did. */
export type Knocks = v.InferOutput<typeof knocksSchema>;

/** The same in what a knocker said at its end. */
export function readKnocks(text: string): Knocks {
  return v.parse(knocksSchema, JSON.parse(text));
}

/** The report in what a load said at its end. */
export function readReport(text: string): LoadReport {
  return v.parse(reportSchema, JSON.parse(text));
}

/** A program that goes on beside the test, in a process of its own: what a test waits for does not hold it up. */
export class SteadyProcess {
  readonly #child: ChildProcess;
  readonly #lines: AsyncIterator<string>;

  private constructor(child: ChildProcess, lines: AsyncIterator<string>) {
    this.#child = child;
    this.#lines = lines;
  }

  /** Starts one in a namespace, and settles when it is ready. */
  static async start(namespace: LabNamespace, args: readonly string[]): Promise<SteadyProcess> {
    const child = namespace.inside(() =>
      spawn(process.execPath, [PROGRAM, ...args], { stdio: ["pipe", "pipe", "inherit"] }),
    );
    const started = new SteadyProcess(child, createInterface(child.stdout)[Symbol.asyncIterator]());
    await started.#line();
    return started;
  }

  /** Ends it. @returns what it said at the end */
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

  /** Ends it at once, whatever it does. */
  kill(): void {
    this.#child.kill("SIGKILL");
  }
}
