import { Buffer } from "node:buffer";
import type { ObjectInput } from "../../cli/input/cluster/object_input.ts";
import type { ManifestFileSystem } from "../../cli/input/manifest_files.ts";
import type { ExitCode } from "../../cli/exit_code.ts";
import type { Programs } from "../../cli/input/programs/programs.ts";
import type { Io, Output } from "../../cli/io.ts";
import type { NodeAccess } from "../../cli/node/machine/machine.ts";
import { runProgram } from "../../cli/program.ts";

/** What a command line did. */
export interface Outcome {
  readonly code: ExitCode;
  readonly out: string;
  readonly err: string;
}

/** Files by path; what is in between are directories, and `-` is standard input. */
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

/** A command that is given files asks no cluster. */
const NO_CLUSTERS: ObjectInput = {
  connect: () => Promise.reject(new Error("no test has asked for a cluster")),
  namespaceOf: () => Promise.reject(new Error("no test has asked for a cluster")),
  sleep: () => Promise.resolve(),
};

/** A command that is given files runs no program. */
const NO_PROGRAMS: Programs = {
  run: (command) => Promise.reject(new Error(`no test has asked for ${command}`)),
  follow: (command) => Promise.reject(new Error(`no test has asked for ${command}`)),
};

/** A command about objects looks at no node. */
const NO_NODE: NodeAccess = {
  open: () => Promise.reject(new Error("no test has asked for a node")),
  sleep: () => Promise.reject(new Error("no test has asked for a node")),
};

/** The line that says what was read (READ-07), which most tests are not about. */
const SUMMARY = /^read \d+ objects? (?:in|of|on) [^\n]*\n/gm;

/** As {@link runCliWhole}, without the lines that say what was read. */
export async function runCli(...given: Parameters<typeof runCliWhole>): Promise<Outcome> {
  const outcome = await runCliWhole(...given);
  return { ...outcome, err: outcome.err.replaceAll(SUMMARY, "") };
}

/** Runs a command line on files in memory, as into a file unless `terminal` says how wide one is. */
export async function runCliWhole(
  args: readonly string[],
  files: ManifestFileSystem,
  terminal?: { readonly columns: number; readonly hasColour: boolean },
  clusters: ObjectInput = NO_CLUSTERS,
  { node = NO_NODE, programs = NO_PROGRAMS }: { readonly node?: NodeAccess; readonly programs?: Programs } = {},
): Promise<Outcome> {
  const written = { out: "", err: "" };
  const outputTo = (stream: "out" | "err"): Output => ({
    write: (text) => void (written[stream] += text),
    isTerminal: terminal !== undefined,
    columns: terminal?.columns ?? 10_000,
    hasColour: terminal?.hasColour ?? false,
  });
  const io: Io = { files, clusters, node, programs, out: outputTo("out"), err: outputTo("err") };
  const code = await runProgram("drawbridge", io, args);
  return { code, ...written };
}
