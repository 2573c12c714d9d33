import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";
import process from "node:process";
import { SERVER } from "../../../cni/executables.ts";
import { SOCKET_FILE } from "../../../cni/server/protocol.ts";
import { realWaiting } from "../../../kernel/resumable_work.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import { megabytesIn, readIfThere, threadsOf } from "../process_files.ts";

/** SO_ACCEPTCON, in the flags of /proc/net/unix (net/unix/af_unix.c, unix_seq_show). */
const LISTENS = "00010000";
const PATIENCE_MILLISECONDS = 10_000;
const POLL_MILLISECONDS = 2;

/** The plugin server that the shims of a run directory start, observed from outside. */
export class PluginServer {
  readonly runDirectory: string;
  #pid: number | undefined;

  constructor(runDirectory: string) {
    this.runDirectory = runDirectory;
  }

  /** Its process ID; undefined while it does not run. */
  get pid(): number | undefined {
    if (this.#pid === undefined || !this.#isServer(this.#pid)) {
      this.#pid = readdirSync("/proc")
        .filter((name) => /^[1-9][0-9]*$/.test(name))
        .map(Number)
        .find((pid) => this.#isServer(pid));
    }
    return this.#pid;
  }

  /** Whether a shim can connect to it. */
  get isListening(): boolean {
    const { pid } = this;
    if (pid === undefined) return false;
    // The columns are: Num RefCount Protocol Flags Type St Inode Path
    return readIfThere(`/proc/${pid}/net/unix`)
      .split("\n")
      .map((line) => line.split(" "))
      .some((fields) => fields[3] === LISTENS && fields.at(-1) === `${this.runDirectory}/${SOCKET_FILE}`);
  }

  /** Returns the user and system time of its threads so far, in milliseconds. */
  get cpuMilliseconds(): number {
    const { pid } = this;
    if (pid === undefined) return 0;
    const nanoseconds = threadsOf(pid).map((thread) =>
      Number(readIfThere(`/proc/${pid}/task/${thread}/schedstat`).split(" ")[0]),
    );
    return nanoseconds.reduce((sum, value) => sum + value, 0) / 1e6;
  }

  /** Returns its resident memory in MB; undefined while it does not run. */
  get residentMegabytes(): number | undefined {
    const { pid } = this;
    if (pid === undefined) return undefined;
    return megabytesIn(`/proc/${pid}/status`, "VmRSS");
  }

  /**
   * Makes the shim start a server that listens, unless one does.
   *
   * @param home the namespace where it is started and waits: neither a node's nor the machine's, whose rules a faulty
   * server must not change
   * @throws Error when there is none after some seconds
   */
  start(shim: string, home: LabNamespace): void {
    if (this.isListening) return;
    const call = { env: { CNI_COMMAND: "VERSION" }, input: "{}", encoding: "utf8" } as const;
    const { status, stdout, stderr, error } = home.inside(() => spawnSync(shim, call));
    if (status !== 0) throw new Error(`${shim}: exit code ${status}: ${error?.message ?? stdout + stderr}`);
    this.waitUntilListening();
  }

  /** Blocks this thread until a shim can connect. @throws Error after {@link PATIENCE_MILLISECONDS} */
  waitUntilListening(): void {
    waitUntil(() => this.isListening, `a plugin server listens in ${this.runDirectory}`);
  }

  /** Ends the server, if it runs, and blocks this thread until it has gone. @throws Error when it does not end */
  end(): void {
    const { pid } = this;
    if (pid === undefined) return;
    process.kill(pid, "SIGKILL");
    waitUntil(() => !this.#isServer(pid), `process ${pid} has ended`);
    this.#pid = undefined;
  }

  /** Whether a process is the server. One that has ended and was not waited for has no command line any more. */
  #isServer(pid: number): boolean {
    const [argv0, runDirectory] = readIfThere(`/proc/${pid}/cmdline`).split("\0");
    return argv0 === SERVER && runDirectory === this.runDirectory;
  }
}

function waitUntil(condition: () => boolean, what: string): void {
  const deadline = performance.now() + PATIENCE_MILLISECONDS;
  while (!condition()) {
    if (performance.now() > deadline) throw new Error(`waited ${PATIENCE_MILLISECONDS} ms without success: ${what}`);
    realWaiting.pause(POLL_MILLISECONDS);
  }
}
