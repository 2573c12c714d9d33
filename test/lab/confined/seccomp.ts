import os from "node:os";
import koffi from "koffi";
import * as v from "valibot";

/** A seccomp profile in the format that container runtimes share, without the parts that depend on the runtime. */
const profileSchema = v.strictObject({
  defaultAction: v.string(),
  defaultErrnoRet: v.optional(v.number()),
  architectures: v.optional(v.array(v.string())),
  archMap: v.optional(v.array(v.unknown())),
  syscalls: v.array(
    v.strictObject({
      names: v.array(v.string()),
      action: v.string(),
      errnoRet: v.optional(v.number()),
      comment: v.optional(v.string()),
      args: v.optional(
        v.array(
          v.strictObject({ index: v.number(), value: v.number(), valueTwo: v.optional(v.number()), op: v.string() }),
        ),
      ),
    }),
  ),
});

/** A profile in the format that container runtimes share. */
export type SeccompProfile = v.InferOutput<typeof profileSchema>;

const EPERM = 1;
const ACTIONS: Readonly<Record<string, number>> = {
  SCMP_ACT_ALLOW: 0x7fff_0000,
  SCMP_ACT_LOG: 0x7ffc_0000,
  SCMP_ACT_ERRNO: 0x0005_0000,
  SCMP_ACT_KILL_PROCESS: 0x8000_0000,
};
/** enum scmp_compare (seccomp.h). */
const COMPARISONS: Readonly<Record<string, number>> = {
  SCMP_CMP_NE: 1,
  SCMP_CMP_LT: 2,
  SCMP_CMP_LE: 3,
  SCMP_CMP_EQ: 4,
  SCMP_CMP_GE: 5,
  SCMP_CMP_GT: 6,
  SCMP_CMP_MASKED_EQ: 7,
};
const ARCHITECTURES: Readonly<Record<string, string>> = { x64: "SCMP_ARCH_X86_64", arm64: "SCMP_ARCH_AARCH64" };
/** struct scmp_arg_cmp: two 32-bit and two 64-bit numbers. */
const COMPARISON_SIZE = 24;

/** Reads a profile. @throws Error if it is not a profile, or has unknown parts */
export function parseProfile(text: string): SeccompProfile {
  return v.parse(profileSchema, JSON.parse(text));
}

/**
 * Applies a profile to this thread, and to the program it executes, with the library that container runtimes use; apt
 * needs it, so every Debian has it.
 *
 * As in container runtimes, a call that this machine does not know is omitted; the default applies to it.
 *
 * @throws Error when the profile is not for this processor or the library refuses it
 */
export function loadProfile(profile: SeccompProfile): void {
  const arch = ARCHITECTURES[os.arch()];
  if (arch === undefined || profile.architectures?.includes(arch) === false) {
    throw new Error(`seccomp: the profile is not for ${os.arch()}: ${profile.architectures?.join(", ")}`);
  }
  const library = koffi.load("libseccomp.so.2");
  const init = library.func("void *seccomp_init(uint32_t action)");
  const resolve = library.func("int seccomp_syscall_resolve_name(const char *name)");
  const add = library.func(
    "int seccomp_rule_add_array(void *ctx, uint32_t action, int call, unsigned int count, const uint8_t *args)",
  );
  const load = library.func("int seccomp_load(void *ctx)");
  const fallback = actionOf(profile.defaultAction, profile.defaultErrnoRet);
  const context: unknown = init(fallback);
  for (const { names, action, errnoRet, args = [] } of profile.syscalls) {
    const code = actionOf(action, errnoRet);
    if (code === fallback) continue;
    for (const name of names) {
      const number: unknown = resolve(name);
      if (typeof number !== "number" || number < 0) continue;
      demand(add(context, code, number, args.length, comparisons(args)), name);
    }
  }
  demand(load(context), "load");
}

function comparisons(args: NonNullable<SeccompProfile["syscalls"][number]["args"]>): Uint8Array {
  const bytes = new Uint8Array(Math.max(1, args.length) * COMPARISON_SIZE);
  const view = new DataView(bytes.buffer);
  for (const [i, { index, op, value, valueTwo = 0 }] of args.entries()) {
    const comparison = COMPARISONS[op];
    if (comparison === undefined)
      throw new Error(`seccomp: op: ${op}; expected ${Object.keys(COMPARISONS).join(", ")}`);
    view.setUint32(i * COMPARISON_SIZE, index, true);
    view.setInt32(i * COMPARISON_SIZE + 4, comparison, true);
    view.setBigUint64(i * COMPARISON_SIZE + 8, BigInt(value), true);
    view.setBigUint64(i * COMPARISON_SIZE + 16, BigInt(valueTwo), true);
  }
  return bytes;
}

function actionOf(name: string, errno = EPERM): number {
  const action = ACTIONS[name];
  if (action === undefined) throw new Error(`seccomp: action: ${name}; expected ${Object.keys(ACTIONS).join(", ")}`);
  return name === "SCMP_ACT_ERRNO" ? action + errno : action;
}

function demand(result: unknown, what: string): void {
  if (result !== 0) throw new Error(`seccomp: ${what}: the library answers ${String(result)}`);
}
