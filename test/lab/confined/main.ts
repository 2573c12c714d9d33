import process from "node:process";
import * as v from "valibot";
import koffi from "koffi";
import { readFileSync } from "node:fs";
import { check } from "../../../kernel/syscall/syscalls.ts";
import { labCalls, type LabCalls } from "../libc.ts";
import { executeUnder } from "./execute.ts";
import { parseProfile } from "./seccomp.ts";

const CLONE_NEWNS = 0x0002_0000;
const MS_BIND = 0x1000;
const MS_REC = 0x4000;
const MS_PRIVATE = 0x4_0000;
const AT_FDCWD = -100;
const AT_RECURSIVE = 0x8000;
const MOUNT_ATTR_RDONLY = 1n;
/** struct mount_attr: set, clear, propagation, user namespace. */
const ATTRIBUTES = 4;

/**
 * Gives this thread its own mount namespace, in which only some paths are writable.
 *
 * @throws SyscallError, also when a path does not exist
 */
function makeReadOnly(calls: LabCalls, writable: readonly string[]): void {
  const mountSetattr = koffi
    .load("libc.so.6")
    .func("int mount_setattr(int directory, const char *path, unsigned int flags, const uint64_t *attr, size_t size)");
  const setReadOnly = (path: string, isReadOnly: boolean): void => {
    const attributes = new BigUint64Array(ATTRIBUTES);
    attributes[isReadOnly ? 0 : 1] = MOUNT_ATTR_RDONLY;
    const result: unknown = mountSetattr(AT_FDCWD, path, AT_RECURSIVE, attributes, attributes.byteLength);
    check(result === 0 ? 0 : -koffi.errno(), `mount_setattr ${path}`);
  };
  check(calls.unshare(CLONE_NEWNS), "unshare the mount namespace");
  check(calls.mount("none", "/", "", MS_REC | MS_PRIVATE), "make mounts private");
  setReadOnly("/", true);
  for (const path of writable) {
    check(calls.mount(path, path, "", MS_BIND | MS_REC), `bind ${path}`);
    setReadOnly(path, false);
  }
}

/** The kernel's capabilities in the order of their numbers (linux/capability.h), as Pod specs name them. */
const NAMES: readonly string[] = `
  CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE NET_BIND_SERVICE
  NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN
  SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE
  MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE`
  .trim()
  .split(/\s+/);

/** Returns the numbers of all capabilities except some. @throws Error for a name that the kernel does not have */
function otherCapabilities(kept: readonly string[]): readonly number[] {
  const unknown = kept.find((name) => !NAMES.includes(name));
  if (unknown !== undefined) throw new Error(`confined: ${unknown} is not a capability; expected ${NAMES.join(", ")}`);
  return NAMES.flatMap((name, number) => (kept.includes(name) ? [] : [number]));
}

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
