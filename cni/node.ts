import type { StoreFileSystem } from "../ipam/file_system.ts";
import { systemFileSystem } from "../ipam/file_system.ts";
import { AddressStore } from "../ipam/store.ts";
import { acquireFileLock } from "../kernel/file_lock.ts";
import { readTextFile } from "../kernel/file.ts";
import type { Sysctl } from "../kernel/sysctl.ts";
import { procSysctl } from "../kernel/sysctl.ts";
import type { FileCalls, FileReadCalls } from "../kernel/syscall/file_calls.ts";
import type { Syscalls } from "../kernel/syscall/syscalls.ts";
import type { Sha256 } from "./names.ts";

/** What the verbs need of the machine they run on. */
export interface Node {
  readonly syscalls: Syscalls & FileReadCalls;
  readonly sysctl: Sysctl;
  readonly files: StoreFileSystem;
  readonly sha256: Sha256;
  /** The id of this boot: a record with another one describes nothing that still exists. */
  bootId(): string;
}

/** The real machine. The backend of the system calls and the hash differ between Bun and Node, so they are passed in. */
export function machine(syscalls: Syscalls & FileCalls, sha256: Sha256): Node {
  let bootId: string | undefined;
  return {
    syscalls,
    sysctl: procSysctl(syscalls),
    files: systemFileSystem(syscalls),
    sha256,
    bootId: () => (bootId ??= (readTextFile(syscalls, "/proc/sys/kernel/random/boot_id", 64) ?? "").trim()),
  };
}

/** The address store of a network, below host-local's `dataDir`. */
export function openStore(node: Node, network: string, dataDir: string): AddressStore {
  return new AddressStore({
    directory: dataDir,
    network,
    fileSystem: node.files,
    lock: { acquire: (path) => acquireFileLock(node.syscalls, path) },
  });
}
