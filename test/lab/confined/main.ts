import { readFileSync } from "node:fs";
import process from "node:process";
import * as v from "valibot";
import { check } from "../../../kernel/syscall/syscalls.ts";
import { labCalls } from "../libc.ts";
import { otherCapabilities } from "./capabilities.ts";
import { executeUnder } from "./execute.ts";
import { makeReadOnly } from "./read_only.ts";
import { parseProfile } from "./seccomp.ts";

/**
 * The launcher that {@link confined} starts: `main.ts <confinement as JSON> <program> [argument...]`.
 *
 * Mounts, capabilities and the filter apply to this thread; execve ends all others.
 */
const PR_CAPBSET_DROP = 24;

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
// For user 0, the kernel derives the permitted set from the bounding set (capabilities(7)).
executeUnder(calls, profile, file, args);
