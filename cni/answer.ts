import type { Work } from "../kernel/resumable_work.ts";
import type { Environment } from "./environment.ts";
import { formatCniError, toCniError } from "./error.ts";
import type { PluginMachine } from "./host.ts";
import { answerStatus, errorVersion, faceOf, nameOf, verbWork } from "./plugin.ts";
import { versionResult } from "./version.ts";

/** The outcome of a call. */
export interface Answer {
  /** For standard output, without the final newline; empty for a DEL. */
  readonly output: string;
  readonly exitCode: 0 | 1;
}

/** One call of the plugin, as a runtime makes it. */
export interface PluginCall {
  readonly argv0: string;
  /** CNI_COMMAND. */
  readonly verb: string;
  readonly environment: Environment;
  /** @throws CniError */
  stdin(): string;
  /** Writes a line to the runtime's log; absent where that cannot be reached. */
  warn?(text: string): void;
  /** Stores the answer to a STATUS that found no problem; absent where nothing reads it. */
  keepStatus?(stdin: string): void;
}

/** Carries out one call of a runtime. Every refusal becomes an answer. VERSION does not need the machine. */
export function* answer(machine: () => PluginMachine, call: PluginCall): Work<Answer> {
  let stdin = "";
  try {
    if (call.verb === "VERSION") return { output: versionResult(), exitCode: 0 };
    const node = machine();
    stdin = call.stdin();
    const { argv0, verb, environment } = call;
    const warn = (text: string): void => call.warn?.(text);
    const input = { self: nameOf(argv0), environment, stdin, warn };
    if (verb === "STATUS") {
      if (answerStatus(node, faceOf(argv0), input)) call.keepStatus?.(stdin);
      return { output: "", exitCode: 0 };
    }
    return { output: yield* verbWork(node, faceOf(argv0), verb, input), exitCode: 0 };
  } catch (error) {
    return { output: formatCniError(toCniError(error), errorVersion(stdin)), exitCode: 1 };
  }
}
