import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { askPolicyd } from "../../../attachment/policyd_client.ts";
import type { PolicydStatus } from "../../../attachment/policyd_messages.ts";
import { DrawbridgeError } from "../../../kernel/error.ts";
import { nodeSyscalls } from "../../../kernel/syscall/koffi.ts";
import { SOURCE } from "../../lab/cni.ts";

export const BUNDLE = fileURLToPath(new URL("../../../dist/policyd/policyd.js", import.meta.url));

/** The longest wait for the answer of a daemon that shares the processors with other tests. */
const PATIENCE_MILLISECONDS = 30_000;
const POLL_MILLISECONDS = 10;

const syscalls = nodeSyscalls();

/** Writes a daemon's configuration into a directory, and returns the argument that names it. */
export function configured(directory: string, fields: Readonly<Record<string, unknown>>): string {
  const head = { apiVersion: "drawbridge.dev/v1alpha1", kind: "PolicydConfiguration" };
  writeFileSync(`${directory}/policyd.json`, JSON.stringify({ ...head, ...fields }));
  return `--config=${directory}/policyd.json`;
}

/** Returns the fields of the configuration of a daemon that installs the built plugin below a directory. */
export function installing(directory: string): Readonly<Record<string, unknown>> {
  return {
    installCni: true,
    cniSourceDirectory: SOURCE,
    cniBinDirectory: `${directory}/bin`,
    cniConfDirectory: `${directory}/conf`,
  };
}

/** The end of a process. */
export interface End {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** A daemon in a process of its own. */
export interface DaemonProcess {
  readonly child: ChildProcess;
  readonly ended: Promise<End>;
  /** Returns everything that the daemon has written to standard error so far. */
  log(): string;
  /** Returns its status, by the plugin's own client. @throws DrawbridgeError ERR_UNAVAILABLE */
  status(): PolicydStatus;
  /**
   * Returns its status once `holds` is true for it.
   *
   * @param seconds the longest wait, on a busy machine more; 60 when absent
   */
  statusWhen(holds: (status: PolicydStatus) => boolean, what: string, seconds?: number): Promise<PolicydStatus>;
  /** Stops all threads of the daemon until SIGCONT. */
  pause(): Promise<void>;
  kill(signal: NodeJS.Signals): Promise<End>;
}

/**
 * Starts the built daemon with a socket in a directory; end it by {@link DaemonProcess.kill}.
 *
 * @param nodeOptions for Node itself
 */
export function startDaemon(
  socketPath: string,
  args: readonly string[],
  bundle: string = BUNDLE,
  nodeOptions: readonly string[] = [],
): DaemonProcess {
  const child = spawn(process.execPath, [...nodeOptions, bundle, "--socket", socketPath, ...args], {
    cwd: "/",
    stdio: ["ignore", "ignore", "pipe"],
  });
  return followDaemon(child, socketPath);
}

/** Returns the daemon of a process that was started in some other way, with a pipe as its standard error. */
export function followDaemon(child: ChildProcess, socketPath: string): DaemonProcess {
  let log = "";
  child.stderr?.setEncoding("utf8");
  child.stderr?.on("data", (piece: string) => (log += piece));
  const ended = once(child, "close").then((): End => ({ code: child.exitCode, signal: child.signalCode }));
  const status = (): PolicydStatus => {
    const reply = askPolicyd(syscalls, socketPath, { type: "status" }, PATIENCE_MILLISECONDS);
    assert.ok(reply.type === "status");
    return reply.status;
  };
  return {
    child,
    ended,
    log: () => log,
    status,
    statusWhen: async (holds, what, seconds = 60) => {
      for (let left = (seconds * 1000) / POLL_MILLISECONDS; ; left--) {
        const current = tryStatus(status);
        if (current !== undefined && holds(current)) return current;
        if (left <= 0 || child.exitCode !== null || child.signalCode !== null) {
          throw new Error(
            `${what}: still not the case: ${JSON.stringify(current)}; exit code ${child.exitCode}; log:\n${log}`,
          );
        }
        await pause(POLL_MILLISECONDS);
      }
    },
    pause: async () => {
      child.kill("SIGSTOP");
      while (!isStopped(child.pid)) await pause(1);
    },
    kill: (signal) => {
      child.kill(signal);
      return ended;
    },
  };
}

/** Whether every thread of a process has stopped (proc(5), stat field 3), or the process has ended. */
function isStopped(pid: number | undefined): boolean {
  const directory = `/proc/${pid}/task`;
  if (!existsSync(directory)) return true;
  return readdirSync(directory).every((thread) => {
    const stat = readFileSync(`${directory}/${thread}/stat`, "latin1");
    return "TtZX".includes(stat[stat.lastIndexOf(")") + 2] ?? "");
  });
}

function tryStatus(status: () => PolicydStatus): PolicydStatus | undefined {
  try {
    return status();
  } catch (error) {
    if (error instanceof DrawbridgeError && error.code === "ERR_UNAVAILABLE") return undefined;
    throw error;
  }
}
