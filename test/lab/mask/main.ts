import process from "node:process";
import { check } from "../../../kernel/syscall/syscalls.ts";
import { labCalls } from "../libc.ts";
import { MASKED_FEATURES, type MaskedFeature } from "./features.ts";
import { maskProgram, type MaskRule } from "./filter.ts";

/**
 * The launcher that {@link masked} starts: `main.ts <feature,...> <program> [argument...]`.
 *
 * A filter applies to the thread that sets it and to the program that it executes; execve ends all other threads.
 */
const PR_SET_NO_NEW_PRIVS = 38;

const [list = "", file = "", ...args] = process.argv.slice(2);
const rules = list.split(",").flatMap((name): readonly MaskRule[] => {
  if (!isFeature(name)) {
    throw new Error(
      `mask: ${JSON.stringify(name)} is not a feature; expected ${Object.keys(MASKED_FEATURES).join(", ")}`,
    );
  }
  return MASKED_FEATURES[name];
});
const calls = labCalls();
check(calls.prctl(PR_SET_NO_NEW_PRIVS, 1), "set no_new_privs");
check(calls.setSeccompFilter(maskProgram(rules)), "set the seccomp filter");
// Node ignores these signals, and an ignored signal stays ignored after execve.
for (const signal of ["SIGPIPE", "SIGXFSZ"] as const) calls.resetSignal(signal);
// Present on Linux, and typed as optional for the platforms without it.
if (process.execve === undefined) throw new Error("mask: this Node has no process.execve; expected 24 or later");
process.execve(file, [file, ...args], process.env);

function isFeature(name: string): name is MaskedFeature {
  return Object.hasOwn(MASKED_FEATURES, name);
}
