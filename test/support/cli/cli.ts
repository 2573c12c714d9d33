import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import type { ObjectInput } from "../../../cli/input/cluster/object_input.ts";
import type { ManifestFileSystem } from "../../../cli/input/manifest_files.ts";
import type { ExitCode, Io, Output } from "../../../cli/io.ts";
import type { Programs } from "../../../cli/input/programs/programs.ts";
import type { NodeAccess, NodeMachine } from "../../../cli/node/machine/machine.ts";
import { runCommandLine } from "../../../cli/program.ts";

/** The outcome of a command line: its exit code and its output. */
export interface Outcome {
  readonly code: ExitCode;
  readonly out: string;
  readonly err: string;
}

/** Files in memory, by path; the directories above them exist as well, and `-` is standard input. */
export function memoryFiles(contents: Readonly<Record<string, string>>): ManifestFileSystem {
  const paths = Object.keys(contents);
  return {
    typeOf(path) {
      if (path in contents) return "file";
      return paths.some((one) => one.startsWith(`${path}/`)) ? "directory" : undefined;
    },
    isLink: () => false,
    namesIn: (directory) => [
      ...new Set(
        paths
          .filter((path) => path.startsWith(`${directory}/`))
          .flatMap((path) => path.slice(directory.length + 1).split("/", 1)),
      ),
    ],
    *read(path) {
      yield Buffer.from(contents[path] ?? "");
    },
  };
}

/** Fails when a command that is given files asks a cluster. */
const NO_CLUSTERS: ObjectInput = {
  connect: () => Promise.reject(new Error("the test did not expect a connection to a cluster")),
  namespaceOf: () => Promise.reject(new Error("the test did not expect a connection to a cluster")),
  sleep: () => Promise.resolve(),
};

/** Fails when a command that is given files runs a program. */
const NO_PROGRAMS: Programs = {
  run: (command) => Promise.reject(new Error(`the test did not expect the program ${command}`)),
  follow: (command) => Promise.reject(new Error(`the test did not expect the program ${command}`)),
  endAll: () => Promise.resolve(),
  onStop: () => assert.fail("the test did not expect to wait for a signal"),
};

const unexpected = (): never => assert.fail("the test did not expect this access to a node");

/** Returns a node with these functions; every other access to it fails the test. */
export function nodeOf(has: Partial<NodeMachine>, sleep: NodeAccess["sleep"] = unexpected): NodeAccess {
  const machine: NodeMachine = {
    readFacts: unexpected,
    probe: unexpected,
    readInventory: unexpected,
    readPods: unexpected,
    visitConnections: unexpected,
    readFlows: unexpected,
    readPolicies: unexpected,
    readAuditFacts: unexpected,
    repair: unexpected,
    remove: unexpected,
    ...has,
  };
  return { open: () => Promise.resolve(machine), sleep };
}

/** Fails when a command about objects reads a node. */
const NO_NODE: NodeAccess = { open: unexpected, sleep: unexpected };

/**
 * Runs a command line on a node.
 *
 * @param columns the width of the terminal; without it the output goes into a file
 */
export function runOnNode(
  args: readonly string[],
  node: NodeAccess,
  { files = {}, columns }: { readonly files?: Readonly<Record<string, string>>; readonly columns?: number } = {},
): Promise<Outcome> {
  const terminal = columns === undefined ? undefined : { columns, hasColour: false };
  return runCli(args, memoryFiles(files), terminal, undefined, { node });
}

/** Matches the line that says what was read (READ-07), which most tests do not check. */
const SUMMARY = /^read \d+ objects? (?:in|of|on) [^\n]*\n/gm;

/** Does the same as {@link runCliWhole}, without the lines that say what was read. */
export async function runCli(...given: Parameters<typeof runCliWhole>): Promise<Outcome> {
  const outcome = await runCliWhole(...given);
  return { ...outcome, err: outcome.err.replaceAll(SUMMARY, "") };
}

/** The node and programs that a command line may reach, and the reader of its output. */
interface Outside {
  readonly node?: NodeAccess;
  readonly programs?: Programs;
  /** Returns whether somebody still reads the output. */
  readonly isRead?: () => boolean;
}

/** Runs a command line on files in memory. Its output goes into a file, or to a terminal of the width `terminal`. */
export async function runCliWhole(
  args: readonly string[],
  files: ManifestFileSystem,
  terminal?: { readonly columns: number; readonly hasColour: boolean },
  clusters: ObjectInput = NO_CLUSTERS,
  { node = NO_NODE, programs = NO_PROGRAMS, isRead = () => true }: Outside = {},
): Promise<Outcome> {
  const written = { out: "", err: "" };
  const outputTo = (stream: "out" | "err"): Output => ({
    write: (text) => void (written[stream] += text),
    writeFile: (bytes) => void (written[stream] += Buffer.from(bytes).toString()),
    get isClosed() {
      return !isRead();
    },
    isTerminal: terminal !== undefined,
    columns: terminal?.columns ?? 10_000,
    hasColour: terminal?.hasColour ?? false,
  });
  const io: Io = { files, clusters, node, programs, out: outputTo("out"), err: outputTo("err") };
  const code = await runCommandLine("drawbridge", io, args);
  return { code, ...written };
}

/** An entry of the JSON that `policy matrix` prints. */
type MatrixEntry = { readonly from: string; readonly to: string } & (
  | { readonly connections: readonly string[]; readonly always: readonly string[] }
  | { readonly port: number; readonly protocol: string; readonly allowed: boolean; readonly partly?: boolean }
);

/**
 * Returns a line for each entry of a matrix as JSON: `from,to,connections,always`, or with ports in question
 * `from,to,port,protocol,answer`.
 */
export function matrixLines(json: string): string {
  const words = (all: readonly string[]): string => all.join(" ") || "none";
  return (JSON.parse(json) as readonly MatrixEntry[])
    .map((one) => {
      const ends = `${one.from},${one.to}`;
      if ("connections" in one) return `${ends},${words(one.connections)},${words(one.always)}\n`;
      const answer = one.partly === true ? "some" : one.allowed ? "yes" : "no";
      return `${ends},${one.port},${one.protocol},${answer}\n`;
    })
    .join("");
}
