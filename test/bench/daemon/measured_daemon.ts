import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import process from "node:process";
import { setTimeout as wait } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import * as v from "valibot";
import type { LabNamespace } from "../../lab/namespace.ts";
import { BUNDLE, type DaemonProcess, startDaemon } from "../../support/daemon/policyd.ts";
import { NODE } from "../objects/policies.ts";
import { processorSeconds, residentOf } from "../process_usage.ts";
import { imageStart } from "./image_start.ts";

const PRELOAD = fileURLToPath(new URL("loop_delay_preload.mjs", import.meta.url));

const delaySchema = v.object({ p50: v.number(), p99: v.number(), max: v.number() });

/** The delays of a daemon's timers, in milliseconds. */
export type LoopDelay = v.InferOutput<typeof delaySchema>;

/** A daemon that watches an API server, with measurements of its process. */
export class MeasuredDaemon {
  readonly daemon: DaemonProcess;
  readonly #delayFile: string;

  /** @param directory has the files of {@link writeAccess} */
  constructor(node: LabNamespace, directory: string) {
    for (const name of ["run", "state"]) mkdirSync(`${directory}/${name}`, { recursive: true });
    this.#delayFile = `${directory}/loop_delay.json`;
    const { nodeOptions, environment } = imageStart();
    Object.assign(process.env, environment, { DRAWBRIDGE_LOOP_DELAY: this.#delayFile });
    // A developer's environment may have this variable; with it Node keeps some hundred certificates in the daemon,
    // which it has on no node.
    delete process.env["NODE_EXTRA_CA_CERTS"];
    this.daemon = startDaemon(
      `${directory}/run/policyd.sock`,
      [
        `--node-name=${NODE}`,
        `--config=${directory}/policyd.json`,
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
    return residentOf(this.daemon.child.pid ?? 0) ?? { now: Number.NaN, peak: Number.NaN };
  }

  /** Returns the seconds of the processor so far, of all threads. */
  processorSeconds(): number {
    return processorSeconds(this.daemon.child.pid ?? 0);
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

/** Writes a daemon's configuration and its service account, for an API server that knows nobody. */
export function writeAccess(directory: string, apiServer: string, authority: string): void {
  const serviceAccountDirectory = `${directory}/account`;
  mkdirSync(serviceAccountDirectory, { recursive: true });
  writeFileSync(`${serviceAccountDirectory}/token`, "of nobody");
  writeFileSync(`${serviceAccountDirectory}/ca.crt`, authority);
  writeConfiguration(directory, apiServer, serviceAccountDirectory);
}

/** Writes a daemon's configuration: the default one with this API server. */
export function writeConfiguration(directory: string, apiServer: string, serviceAccountDirectory: string): void {
  const of = { apiVersion: "drawbridge.dev/v1alpha1", kind: "PolicydConfiguration" };
  writeFileSync(`${directory}/policyd.json`, JSON.stringify({ ...of, apiServer, serviceAccountDirectory }));
}
