import koffi from "koffi";
import { check } from "../../../kernel/syscall/syscalls.ts";
import type { LabCalls } from "../libc.ts";

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
export function makeReadOnly(calls: LabCalls, writable: readonly string[]): void {
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
