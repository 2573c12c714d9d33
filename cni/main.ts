import { writeAll } from "../kernel/file.ts";
import { bunSyscalls } from "../kernel/syscall/bun.ts";
import { carryOut } from "../kernel/resumable_work.ts";
import { answer } from "./answer.ts";
import { SERVER } from "./executables.ts";
import { machine } from "./plugin.ts";
import type { MachineParts } from "./host.ts";
import type * as BunProgram from "../kernel/syscall/bun_program.ts";
import type * as NodeRules from "./node_rules/node_rules.ts";
import type * as Serve from "./server/serve.ts";
import { keepAnswer } from "./status/kept_answer.ts";
import { readStdin } from "./standard_input.ts";
import { supportedVersions } from "./version.ts";

const STDIN = 0;
const STDOUT = 1;
const STDERR = 2;

// Errors are reported without a stack. Collecting one for each that is caught and expected would slow every call.
Error.stackTraceLimit = 0;

const syscalls = bunSyscalls();

function write(fd: number, text: string): void {
  writeAll(syscalls, fd, new TextEncoder().encode(`${text}\n`), "the result");
}

function nodeRules(): typeof NodeRules {
  // oxlint-disable-next-line no-unsafe-return -- Bun links it by its type; an import would be carried out at the start
  return require("./node_rules/node_rules.ts");
}

function server(): typeof Serve {
  // oxlint-disable-next-line no-unsafe-return -- as above
  return require("./server/serve.ts");
}

function bunProgram(): typeof BunProgram {
  // oxlint-disable-next-line no-unsafe-return -- as above
  return require("../kernel/syscall/bun_program.ts");
}

const parts: MachineParts = {
  sha256: (text) => Bun.SHA256.hash(text, "hex"),
  nodeRules,
  programs: () => bunProgram().bunProgramCalls(),
};

/**
 * Runs the plugin: verb from the environment, configuration from standard input, result or error on standard output.
 *
 * @returns the exit code
 */
function main(): number {
  const verb = process.env["CNI_COMMAND"];
  if (!verb) {
    if (process.argv0 === SERVER) return server().serve(syscalls, (calls) => machine(calls, parts));
    write(STDERR, `Drawbridge CNI plugin\nCNI protocol versions supported: ${supportedVersions.join(", ")}`);
    return 0;
  }
  const { output, exitCode } = carryOut(
    answer(() => machine(syscalls, parts), {
      argv0: process.argv0,
      verb,
      environment: process.env,
      stdin: () => readStdin(syscalls, STDIN),
      warn: (text) => {
        write(STDERR, text);
      },
      keepStatus: (stdin) => {
        // The shim gives this argument, its only one, with STATUS; a runtime that calls the plugin itself gives none.
        const [, , directory] = process.argv;
        if (directory !== undefined) keepAnswer(syscalls, directory, process.argv0, stdin);
      },
    }),
  );
  if (output !== "") write(STDOUT, output);
  return exitCode;
}

let exitCode = 1;
try {
  exitCode = main();
} finally {
  // Exits without Bun's own shutdown, which would clean up memory and descriptors that the kernel frees faster
  // (docs/performance.md). An error that main still throws means that the result could not be written, so it cannot be
  // reported.
  syscalls.exit(exitCode);
}
