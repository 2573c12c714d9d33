import type { Stats } from "node:fs";
import { closeSync, lstatSync, openSync, readdirSync, readSync, statSync, writeSync } from "node:fs";
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import { DrawbridgeError } from "../kernel/error.ts";
import type { ObjectInput } from "./input/cluster/object_input.ts";
import type { ManifestFileSystem } from "./input/manifest_files.ts";
import type { Programs } from "./input/programs/programs.ts";
import type { Io, Output } from "./io.ts";
import type { NodeAccess } from "./node/machine/machine.ts";

const CHUNK = 1024 * 1024;
const STANDARD_INPUT = 0;
/** Nothing is folded for a file or a pipe, or for a terminal that does not know its size. */
const UNLIMITED_COLUMNS = 10_000;
const WAIT_MILLISECONDS = 5;

/** The files, clusters and streams of this process. */
export function processIo(): Io {
  return {
    files: systemFiles,
    clusters: networkClusters,
    programs: ownPrograms,
    node: thisNode,
    out: outputTo(process.stdout, 1),
    err: outputTo(process.stderr, 2),
  };
}

const networkClusters: ObjectInput = {
  async connect(access) {
    // Only who reads a cluster waits for the network's libraries.
    const { connect } = await import("./input/cluster/api_server.ts");
    return connect(access);
  },
  async namespaceOf(choice) {
    const { namespaceOf } = await import("../policyd/source/api/kubeconfig.ts");
    return namespaceOf(choice);
  },
  sleep: (milliseconds) => sleep(milliseconds),
};

const ownPrograms: Programs = {
  async run(command, args, bounds) {
    const { systemPrograms } = await import("./input/programs/system_programs.ts");
    return systemPrograms.run(command, args, bounds);
  },
  async follow(command, args, onLine) {
    const { systemPrograms } = await import("./input/programs/system_programs.ts");
    return systemPrograms.follow(command, args, onLine);
  },
};

const thisNode: NodeAccess = {
  async open(networkNamespace) {
    // The kernel's interface is native code that nobody else needs.
    const { openMachine } = await import("./node/machine/open.ts");
    return openMachine(networkNamespace);
  },
  sleep: (milliseconds) => sleep(milliseconds),
};

const systemFiles: ManifestFileSystem = {
  typeOf(path) {
    const found = attempt(path, () => statOf(path));
    if (found?.isDirectory() === true) return "directory";
    // A pipe is what a shell makes of <(kubectl get pods -o json).
    return found?.isFile() === true || found?.isFIFO() === true ? "file" : undefined;
  },
  isLink: (path) => attempt(path, () => lstatSync(path).isSymbolicLink()),
  namesIn: (directory) => attempt(directory, () => readdirSync(directory)),
  *read(path) {
    const descriptor = path === "-" ? STANDARD_INPUT : attempt(path, () => openSync(path, "r"));
    try {
      for (;;) {
        const chunk = Buffer.allocUnsafe(CHUNK);
        const length = attempt(path, () => readWaiting(descriptor, chunk));
        if (length === 0) return;
        yield chunk.subarray(0, length);
      }
    } finally {
      if (descriptor !== STANDARD_INPUT) closeSync(descriptor);
    }
  },
};

/** Undefined for nothing, and for a link that leads to itself. */
function statOf(path: string): Stats | undefined {
  try {
    return statSync(path, { throwIfNoEntry: false });
  } catch (error) {
    if (isErrno(error, "ELOOP")) return undefined;
    throw error;
  }
}

/** Standard input may be a pipe that does not block: whoever writes to it is given time. */
function readWaiting(descriptor: number, chunk: Buffer): number {
  return untilReady(() => readSync(descriptor, chunk));
}

function untilReady<T>(attemptOnce: () => T): T {
  for (;;) {
    try {
      return attemptOnce();
    } catch (error) {
      if (!isErrno(error, "EAGAIN")) throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, WAIT_MILLISECONDS);
    }
  }
}

function attempt<T>(path: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw told(path, error);
  }
}

/** What the system refuses, with where; what is no such error, as it is. */
function told(place: string, error: unknown): unknown {
  if (!(error instanceof Error) || !("code" in error)) return error;
  return new DrawbridgeError("ERR_INPUT", `${place}: ${error.message}`);
}

function outputTo(stream: NodeJS.WriteStream, descriptor: 1 | 2): Output {
  const isTerminal = stream.isTTY;
  return {
    isTerminal,
    columns: isTerminal && stream.columns > 0 ? stream.columns : UNLIMITED_COLUMNS,
    hasColour: isTerminal && (process.env["NO_COLOR"] ?? "") === "" && process.env["TERM"] !== "dumb",
    write: (text) => writeAll(descriptor, Buffer.from(text)),
  };
}

/** All of it before the command ends; a reader that has seen enough (`| head`) is no error. */
function writeAll(descriptor: number, bytes: Buffer): void {
  let rest = bytes;
  while (rest.length > 0) {
    try {
      const written = untilReady(() => writeSync(descriptor, rest));
      rest = rest.subarray(written);
    } catch (error) {
      if (isErrno(error, "EPIPE")) return;
      throw told(descriptor === 1 ? "standard output" : "standard error", error);
    }
  }
}

function isErrno(error: unknown, code: string): boolean {
  return error instanceof Error && "code" in error && error.code === code;
}
