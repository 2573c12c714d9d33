import type { Sha256 } from "../attachment/names_and_macs.ts";
import { type StoreFileSystem, systemFileSystem } from "../ipam/file_system.ts";
import { AddressStore, type Holding } from "../ipam/store.ts";
import { readBootId } from "../kernel/file.ts";
import { acquireFileLock } from "../kernel/file_lock.ts";
import type { BpfCalls } from "../kernel/syscall/bpf_calls.ts";
import type { FileReadCalls } from "../kernel/syscall/file_calls.ts";
import type { MachineCalls } from "../kernel/syscall/machine_calls.ts";
import type { ProgramCalls } from "../kernel/syscall/program_calls.ts";
import type { Syscalls } from "../kernel/syscall/syscalls.ts";
import { procSysctl, type Sysctl } from "../kernel/sysctl.ts";
import type * as Adding from "./adding.ts";
import type * as Unwiring from "./del/wiring_removal.ts";
import type * as Deleting from "./deleting.ts";
import type * as Loopback from "./loopback.ts";
import type * as NodeRules from "./pod_rules.ts";
import type * as Rare from "./rare.ts";
import type * as Registering from "./registration.ts";

/** The modules that are loaded on their first use: reading all of them would take a third of a call (docs/performance.md). */
export interface LazyModules {
  /** ADD itself, and what ADD and CHECK read of a configuration. */
  adding(): typeof Adding;
  /** DEL, and reading what exists of an attachment. */
  deleting(): typeof Deleting;
  /** Removes links, unless the daemon has done that. */
  unwiring(): typeof Unwiring;
  loopback(): typeof Loopback;
  /** Calls the daemon. */
  registering(): typeof Registering;
  /** Writes nftables: few calls need it. */
  nodeRules(): typeof NodeRules;
  /** The parts that most calls on a node do not need. */
  rare(): typeof Rare;
}

/** The parts of the machine that the verbs use. */
export interface PluginMachine extends LazyModules {
  readonly syscalls: Syscalls & FileReadCalls & BpfCalls;
  readonly sysctl: Sysctl;
  readonly files: StoreFileSystem;
  readonly sha256: Sha256;
  /** The system calls that start other programs. */
  programs(): ProgramCalls;
  /** The id of this boot: a record with another one describes nothing that still exists. */
  bootId(): string;
}

/** The parts that differ between the plugin's engine and Node, besides the system calls. */
export type MachineParts = LazyModules & Pick<PluginMachine, "sha256" | "programs">;

/** Returns the real machine. */
export function machine(syscalls: MachineCalls, parts: MachineParts): PluginMachine {
  let bootId: string | undefined;
  return {
    syscalls,
    sysctl: procSysctl(syscalls),
    files: systemFileSystem(syscalls),
    ...parts,
    bootId: () => (bootId ??= readBootId(syscalls)),
  };
}

/**
 * Opens the address store of a network, below host-local's `dataDir`.
 *
 * @param recorded the addresses that pods hold by their records, if the records are ours
 */
export function openStore(
  node: PluginMachine,
  network: string,
  dataDir: string,
  recorded?: () => Iterable<Holding>,
): AddressStore {
  return new AddressStore({
    directory: dataDir,
    network,
    fileSystem: node.files,
    lock: { acquire: (path) => acquireFileLock(node.syscalls, path) },
    ...(recorded === undefined ? {} : { recorded }),
  });
}

/** Returns the node's settings, and remembers the original ones: like a foreign bridge, they outlive an uninstall. */
export function rememberingSettings(node: PluginMachine, runDirectory: string): Sysctl {
  const place = { files: node.files, runDirectory, bootId: () => node.bootId() };
  return {
    read: (key) => node.sysctl.read(key),
    write: (key, value) => node.rare().rememberingSysctl(node.sysctl, place).write(key, value),
  };
}
