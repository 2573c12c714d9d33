import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import process from "node:process";
import { setTimeout as wait } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import * as v from "valibot";
import type { LabNamespace } from "../../lab/namespace.ts";
import { BUNDLE, type DaemonProcess, startDaemon } from "../../support/daemon/policyd.ts";
import { NODE } from "../policy/cluster.ts";
import { imageStart } from "./image_start.ts";

const PRELOAD = fileURLToPath(new URL("loop_delay_preload.mjs", import.meta.url));
/** USER_HZ, the unit in which proc(5) counts. */
const TICKS_PER_SECOND = 100;

const delaySchema = v.object({ p50: v.number(), p99: v.number(), max: v.number() });

/** The delays of a daemon's timers, in milliseconds. */
export type LoopDelay = v.InferOutput<typeof delaySchema>;

/** A daemon that watches an API server, with measurements of its process. */
export class MeasuredDaemon {
  readonly daemon: DaemonProcess;
  readonly #delayFile: string;

  /**
   * @param directory has a directory `account` with the files of a service account
   * @param configuration fields that differ from the default
   */
  constructor(
    node: LabNamespace,
    directory: string,
    server: string,
    configuration: Readonly<Record<string, unknown>> = {},
  ) {
    for (const name of ["run", "state"]) mkdirSync(`${directory}/${name}`, { recursive: true });
    this.#delayFile = `${directory}/loop_delay.json`;
    const file = `${directory}/policyd.json`;
    writeFileSync(file, configurationFor(server, `${directory}/account`, configuration));
    const { nodeOptions, environment } = imageStart();
    Object.assign(process.env, environment, { DRAWBRIDGE_LOOP_DELAY: this.#delayFile });
    // A developer's environment may have this variable; with it Node keeps some hundred certificates in the daemon,
    // which it has on no node.
    delete process.env["NODE_EXTRA_CA_CERTS"];
    this.daemon = startDaemon(
      `${directory}/run/policyd.sock`,
      [
        `--node-name=${NODE}`,
        `--config=${file}`,
        `--state-directory=${directory}/state`,
        `--network-namespace=${node.path}`,
        "--log-level=error",
      ],
      BUNDLE,
      [...nodeOptions, "--import", PRELOAD],
    );
  }

  /** Returns the megabytes now, and the largest number so far. */
  memory(): { readonly now: number; readonly peak: number } {
    const status = readFileSync(`/proc/${this.daemon.child.pid}/status`, "latin1");
    const of = (name: string): number => Number(new RegExp(`^${name}:\\s+(\\d+) kB`, "m").exec(status)?.[1]) / 1024;
    return { now: of("VmRSS"), peak: of("VmHWM") };
  }

  /** Returns the seconds of the processor so far, of all threads. */
  processorSeconds(): number {
    const stat = readFileSync(`/proc/${this.daemon.child.pid}/stat`, "latin1");
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    // utime and stime, the fields 14 and 15; the first here is field 3.
    return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND;
  }

  /** Returns the delays of timers since the last call. */
  async loopDelay(): Promise<LoopDelay> {
    rmSync(this.#delayFile, { force: true });
    this.daemon.child.kill("SIGUSR2");
    for (let left = 2000; left > 0; left--) {
      await wait(10);
      const text = existsSync(this.#delayFile) ? readFileSync(this.#delayFile, "utf8") : "";
      if (text.endsWith("}")) return v.parse(delaySchema, JSON.parse(text));
    }
    throw new Error(`the daemon does not report its loop's delay; log:\n${this.daemon.log()}`);
  }
}

function configurationFor(
  apiServer: string,
  serviceAccountDirectory: string,
  further: Readonly<Record<string, unknown>>,
): string {
  const of = { apiVersion: "drawbridge.dev/v1alpha1", kind: "PolicydConfiguration" };
  return JSON.stringify({ ...of, apiServer, serviceAccountDirectory, ...further });
}
