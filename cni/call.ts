import { DrawbridgeError } from "../kernel/error.ts";
import { writeAll } from "../kernel/file.ts";
import { type NativeCalls, nativeMachineCalls, nativeProgramCalls } from "../kernel/syscall/native.ts";
import type * as Adding from "./adding.ts";
import type * as Unwiring from "./del/wiring_removal.ts";
import type * as Deleting from "./deleting.ts";
import { CniError, formatCniError, toCniError } from "./error.ts";
import { machine, type PluginMachine } from "./host.ts";
import type * as Loopback from "./loopback.ts";
import { errorVersion, faceOf, nameOf, runVerb } from "./plugin.ts";
import type * as NodeRules from "./pod_rules.ts";
import type * as Rare from "./rare.ts";
import type * as Registering from "./registration.ts";
import { readStdin } from "./standard_input.ts";

const STDIN = 0;
const STDOUT = 1;
const STDERR = 2;

/**
 * Carries out the call of a runtime that started this process: result or error go to standard output.
 *
 * @returns the exit code
 */
export function carryOut(verb: string): number {
  const { output, exitCode } = answerOf(verb);
  if (output !== "") print(STDOUT, output);
  return exitCode;
}

/** Returns the output of a call and its exit code. Every refusal becomes an error in CNI's form. */
function answerOf(verb: string): { readonly output: string; readonly exitCode: 0 | 1 } {
  let stdin = "";
  try {
    const node = nativeMachine();
    stdin = readStdin(node.syscalls, STDIN);
    const { argv0, env: environment } = process;
    const input = { self: nameOf(argv0), environment, stdin, warn: (text: string) => print(STDERR, text) };
    return { output: runVerb(node, faceOf(argv0), verb, input), exitCode: 0 };
  } catch (error) {
    // The engine has no memory even for an error: cni/native/main.c has an answer for that.
    if (error === null) throw error;
    const isExpected = error instanceof CniError || error instanceof DrawbridgeError;
    if (!isExpected) globalThis.native.printStack(error);
    return { output: formatCniError(toCniError(error), errorVersion(stdin)), exitCode: 1 };
  }
}

function print(fd: number, text: string): void {
  const native: NativeCalls = globalThis.native;
  writeAll(native, fd, native.encode(`${text}\n`), "the result");
}

function nativeMachine(): PluginMachine {
  const native: NativeCalls = globalThis.native;
  return machine(nativeMachineCalls(), {
    sha256: native.sha256,
    /* oxlint-disable no-unsafe-type-assertion -- the module of each path has this type */
    adding: () => native.load("cni/adding.js") as typeof Adding,
    unwiring: () => native.load("cni/del/wiring_removal.js") as typeof Unwiring,
    loopback: () => native.load("cni/loopback.js") as typeof Loopback,
    deleting: () => native.load("cni/deleting.js") as typeof Deleting,
    registering: () => native.load("cni/registration.js") as typeof Registering,
    nodeRules: () => native.load("cni/pod_rules.js") as typeof NodeRules,
    rare: () => native.load("cni/rare.js") as typeof Rare,
    /* oxlint-enable no-unsafe-type-assertion */
    programs: nativeProgramCalls,
  });
}
