import process from "node:process";
import { check } from "../../../kernel/syscall/syscalls.ts";
import type { LabCalls } from "../libc.ts";
import { loadProfile, type SeccompProfile } from "./seccomp.ts";

const PR_SET_NO_NEW_PRIVS = 38;

/**
 * Executes a program in place of this one, without new privileges and under a seccomp profile.
 *
 * A filter applies to the thread that sets it and to the program that it executes; execve ends all other threads.
 */
export function executeUnder(
  calls: LabCalls,
  profile: SeccompProfile | undefined,
  file: string,
  args: readonly string[],
): never {
  check(calls.prctl(PR_SET_NO_NEW_PRIVS, 1), "set no_new_privs");
  // Node ignores these signals, and an ignored signal stays ignored after execve.
  for (const signal of ["SIGPIPE", "SIGXFSZ"] as const) calls.resetSignal(signal);
  // Present on Linux, and typed as optional for the platforms without it.
  if (process.execve === undefined) throw new Error("this Node has no process.execve; expected 24 or later");
  // Last: from here on only what the profile allows works.
  if (profile !== undefined) loadProfile(profile);
  return process.execve(file, [file, ...args], process.env);
}
