import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import process from "node:process";
import { askPolicyd } from "../../attachment/policyd_client.ts";
import { DrawbridgeError } from "../../kernel/error.ts";
import type { Lab } from "../lab/lab.ts";
import { BUNDLE } from "../support/daemon/policyd.ts";
import type { Side } from "./contestant.ts";
import { imageStart } from "./daemon/image_start.ts";
import type { Context } from "./scenario/context.ts";
import { sleep } from "./sleep.ts";

const START_MILLISECONDS = 30_000;

/**
 * Runs an action on a side with a daemon of its own, started as a node starts it and without objects; the side's
 * configuration names it then.
 */
export function withPolicyd<T>(context: Context, side: Side, action: (side: Side) => T): T {
  const directory = mkdtempSync(path.join(tmpdir(), "drawbridge-bench-"));
  mkdirSync(`${directory}/objects`);
  const socket = `${directory}/run/policyd.sock`;
  const { nodeOptions, environment } = imageStart();
  const daemon = spawn(
    process.execPath,
    [
      ...nodeOptions,
      BUNDLE,
      "--node-name=bench",
      `--objects=${directory}/objects`,
      `--socket=${socket}`,
      `--state-directory=${side.directory}`,
      `--network-namespace=${side.node.path}`,
      "--log-level=error",
    ],
    { cwd: "/", env: { ...process.env, ...environment }, stdio: "ignore" },
  );
  try {
    waitUntilSynced(context.lab, socket);
    return action({ ...side, configuration: { ...side.configuration, policyd: { socket } } });
  } finally {
    daemon.kill("SIGKILL");
    rmSync(directory, { recursive: true, force: true });
  }
}

/** Waits until a daemon has read all objects. @throws Error when it does not answer in {@link START_MILLISECONDS} */
function waitUntilSynced({ calls }: Lab, socket: string): void {
  const deadline = performance.now() + START_MILLISECONDS;
  while (performance.now() < deadline) {
    try {
      const reply = askPolicyd(calls, socket, { type: "status" }, 1000);
      if (reply.type === "status" && reply.status.isSynced) return;
    } catch (error) {
      if (!(error instanceof DrawbridgeError)) throw error;
    }
    sleep(5);
  }
  throw new Error(`policyd did not start in ${START_MILLISECONDS} ms`);
}
