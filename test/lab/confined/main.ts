import { readFileSync } from "node:fs";
import process from "node:process";
import * as v from "valibot";
import { check } from "../../../kernel/syscall/syscalls.ts";
import { labCalls } from "../libc.ts";
import { otherCapabilities } from "./capabilities.ts";
import { makeReadOnly } from "./read_only.ts";
import { loadProfile, parseProfile } from "./seccomp.ts";

/**
 * The launcher that {@link confined} starts: `main.ts <confinement as JSON> <program> [argument...]`.
 *
 * Mounts, capabilities and the filter apply to this thread; execve ends all others.
 */
const PR_CAPBSET_DROP = 24;
const PR_SET_NO_NEW_PRIVS = 38;

const confinementSchema = v.strictObject({
  capabilities: v.array(v.string()),
  writable: v.array(v.string()),
  seccompProfile: v.optional(v.string()),
});

const [json = "", file = "", ...args] = process.argv.slice(2);
const { capabilities, writable, seccompProfile } = v.parse(confinementSchema, JSON.parse(json));
const profile = seccompProfile === undefined ? undefined : parseProfile(readFileSync(seccompProfile, "utf8"));
const calls = labCalls();
makeReadOnly(calls, writable);
for (const number of otherCapabilities(capabilities)) {
  check(calls.prctl(PR_CAPBSET_DROP, number), `drop capability ${number}`);
}
check(calls.prctl(PR_SET_NO_NEW_PRIVS, 1), "set no_new_privs");
for (const signal of ["SIGPIPE", "SIGXFSZ"] as const) calls.resetSignal(signal);
// Present on Linux, and typed as optional for the platforms without it.
if (process.execve === undefined) throw new Error("confined: this Node has no process.execve; expected 24 or later");
// Last: from here on only what the profile allows works.
if (profile !== undefined) loadProfile(profile);
// For user 0, the kernel derives the permitted set from the bounding set (capabilities(7)).
process.execve(file, [file, ...args], process.env);
