import { readAll, writeAll } from "../kernel/file.ts";
import { bunSyscalls } from "../kernel/syscall/bun.ts";
import { CniError, CniErrorCode, formatCniError, toCniError } from "./error.ts";
import type * as NodeRules from "./node_rules.ts";
import { errorVersion, faceOf, machine, runVerb } from "./plugin.ts";
import { supportedVersions, versionResult } from "./version.ts";

const STDIN = 0;
const STDOUT = 1;
const STDERR = 2;
/** A network configuration is a few kilobytes; this bounds what a broken caller can make us keep. */
const LONGEST_STDIN = 4 * 1024 * 1024;

// A refusal is told in words; collecting a stack for every error that is caught and expected would cost each call.
Error.stackTraceLimit = 0;

const syscalls = bunSyscalls();

function write(fd: number, text: string): void {
  writeAll(syscalls, fd, new TextEncoder().encode(`${text}\n`), "the result");
}

/** @throws CniError 5 */
function readStdin(): string {
  try {
    return readAll(syscalls, STDIN, LONGEST_STDIN, "standard input");
  } catch (error) {
    throw new CniError(CniErrorCode.IO_FAILURE, error instanceof Error ? error.message : String(error));
  }
}

function nodeRules(): typeof NodeRules {
  // oxlint-disable-next-line no-unsafe-return -- Bun links it by its type; an import would be carried out at the start
  return require("./node_rules.ts");
}

/**
 * The plugin: verb from the environment, configuration from standard input, result or error on standard output.
 *
 * @returns the exit code
 */
function main(): number {
  const verb = process.env["CNI_COMMAND"];
  if (!verb) {
    write(STDERR, `Drawbridge CNI plugin\nCNI protocol versions supported: ${supportedVersions.join(", ")}`);
    return 0;
  }
  let stdin = "";
  try {
    if (verb === "VERSION") {
      write(STDOUT, versionResult());
      return 0;
    }
    const node = machine(syscalls, (text) => Bun.SHA256.hash(text, "hex"), nodeRules);
    stdin = readStdin();
    const output = runVerb(node, faceOf(process.argv0), verb, process.env, stdin);
    if (output !== "") write(STDOUT, output);
    return 0;
  } catch (error) {
    write(STDOUT, formatCniError(toCniError(error), errorVersion(stdin)));
    return 1;
  }
}

let exitCode = 1;
try {
  exitCode = main();
} finally {
  // Ending through the runtime would take it apart first, which the kernel does faster (docs/performance.md). What main
  // still throws is that its result could not be written: nobody is left to tell.
  syscalls.exit(exitCode);
}
