import { closeSync, lstatSync, openSync, readdirSync, readSync, type Stats, statSync, writeSync } from "node:fs";
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import { DrawbridgeError } from "../kernel/error.ts";
import type { ObjectInput } from "./input/cluster/object_input.ts";
import type { ManifestFileSystem } from "./input/manifest_files.ts";
import { type Programs, STOPPING } from "./input/programs/programs.ts";
import type { Io, Output } from "./io.ts";
import type { NodeAccess } from "./node/machine/machine.ts";
import { type TerminalText, terminalText } from "./output/markup.ts";

const CHUNK = 1024 * 1024;
const STANDARD_INPUT = 0;
/** The width for files, pipes and terminals that do not know their size: nothing is folded. */
const UNLIMITED_COLUMNS = 10_000;
const WAIT_MILLISECONDS = 5;

/** Returns the files, clusters and streams of this process. */
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
    // The network's libraries are loaded only by commands that read a cluster.
    const { connect } = await import("./input/cluster/api_server.ts");
    return connect(access);
  },
  async namespaceOf(choice) {
    const { namespaceOf } = await import("../policyd/sources/api/connection/kubeconfig.ts");
    return namespaceOf(choice);
  },
  sleep: (milliseconds) => sleep(milliseconds),
};

const systemPrograms = async (): Promise<Omit<Programs, "onStop">> =>
  (await import("./input/programs/system_programs.ts")).systemPrograms;

const ownPrograms: Programs = {
  run: async (...given) => (await systemPrograms()).run(...given),
  follow: async (...given) => (await systemPrograms()).follow(...given),
  endAll: async () => (await systemPrograms()).endAll(),
  onStop(stop) {
    for (const signal of STOPPING) process.on(signal, stop);
    return () => {
      for (const signal of STOPPING) process.off(signal, stop);
    };
  },
};

const thisNode: NodeAccess = {
  async open(networkNamespace) {
    // The interface to the kernel is native code that no other command needs.
    const { openMachine } = await import("./node/machine/system_machine.ts");
    return openMachine(networkNamespace);
  },
  sleep: (milliseconds) => sleep(milliseconds),
};

const systemFiles: ManifestFileSystem = {
  typeOf(path) {
    const found = attempt(path, () => statOf(path));
    if (found?.isDirectory() === true) return "directory";
    // A shell makes a pipe of <(kubectl get pods -o json).
    return found?.isFile() === true || found?.isFIFO() === true ? "file" : undefined;
  },
  isLink: (path) => attempt(path, () => lstatSync(path).isSymbolicLink()),
  namesIn: (directory) => attempt(directory, () => readdirSync(directory)),
  *read(path) {
    const descriptor = path === "-" ? STANDARD_INPUT : attempt(path, () => openSync(path, "r"));
    try {
      for (;;) {
        const chunk = Buffer.allocUnsafe(CHUNK);
        const length = attempt(path, () => untilReady(() => readSync(descriptor, chunk)));
        if (length === 0) return;
        yield chunk.subarray(0, length);
      }
    } finally {
      if (descriptor !== STANDARD_INPUT) closeSync(descriptor);
    }
  },
};

/** @returns undefined where nothing is at the path, and for a link that leads to itself */
function statOf(path: string): Stats | undefined {
  try {
    return statSync(path, { throwIfNoEntry: false });
  } catch (error) {
    if (isErrno(error, "ELOOP")) return undefined;
    throw error;
  }
}

/** Tries until there is data, or room for it: standard input may be a non-blocking pipe. */
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
    throw inputError(path, error);
  }
}

/** Returns an error of the system as ERR_INPUT with its place, and any other error unchanged. */
function inputError(place: string, error: unknown): unknown {
  if (!(error instanceof Error) || !("code" in error)) return error;
  return new DrawbridgeError("ERR_INPUT", `${place}: ${error.message}`);
}

function outputTo(stream: NodeJS.WriteStream, descriptor: 1 | 2): Output {
  const isTerminal = stream.isTTY;
  const hasColour = isTerminal && (process.env["NO_COLOR"] ?? "") === "" && process.env["TERM"] !== "dumb";
  let isClosed = false;
  const put = (output: TerminalText | Uint8Array): void => {
    if (!writeAll(descriptor, output)) isClosed = true;
  };
  return {
    get isClosed() {
      return isClosed;
    },
    isTerminal,
    columns: isTerminal && stream.columns > 0 ? stream.columns : UNLIMITED_COLUMNS,
    hasColour,
    write: (text) => put(terminalText(text, hasColour)),
    writeFile: put,
  };
}

/** Writes everything before it returns. @returns false where the reader has ended (`| head`), which is not an error */
function writeAll(descriptor: number, output: TerminalText | Uint8Array): boolean {
  let rest = typeof output === "string" ? Buffer.from(output) : output;
  while (rest.length > 0) {
    try {
      const written = untilReady(() => writeSync(descriptor, rest));
      rest = rest.subarray(written);
    } catch (error) {
      if (isErrno(error, "EPIPE")) return false;
      throw inputError(descriptor === 1 ? "standard output" : "standard error", error);
    }
  }
  return true;
}

function isErrno(error: unknown, code: string): boolean {
  return error instanceof Error && "code" in error && error.code === code;
}
