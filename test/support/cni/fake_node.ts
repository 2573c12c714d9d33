import path from "node:path";
import * as adding from "../../../cni/adding.ts";
import * as unwiring from "../../../cni/del/wiring_removal.ts";
import * as deleting from "../../../cni/deleting.ts";
import type { PluginMachine } from "../../../cni/host.ts";
import * as loopback from "../../../cni/loopback.ts";
import * as nodeRules from "../../../cni/pod_rules.ts";
import * as rare from "../../../cni/rare.ts";
import * as registering from "../../../cni/registration.ts";
import { systemFileSystem } from "../../../ipam/file_system.ts";
import { Errno } from "../../../kernel/syscall/errno.ts";
import { OpenFlag } from "../../../kernel/syscall/file_calls.ts";
import { nodeSyscalls } from "../../../kernel/syscall/koffi.ts";
import type { MachineCalls } from "../../../kernel/syscall/machine_calls.ts";
import { fakeSysctl } from "../fake_sysctl.ts";
import { sha256 } from "./cni.ts";

/** A node whose kernel supports only files below one directory, and which records what else was requested. */
export interface FakeNode extends PluginMachine {
  /** The system calls with those that change files; a verb reaches these only through `files`. */
  readonly syscalls: MachineCalls;
  /**
   * The paths outside the directory where something was to be made, changed or removed, in order; a test may clear the
   * list.
   */
  readonly escapes: string[];
}

const real = nodeSyscalls();

/**
 * Returns a node for tests that must not touch the machine.
 *
 * Sockets and namespaces answer ENOSYS. Files can be read anywhere but changed only below `root`; elsewhere the answer
 * is EACCES. The lock is always free.
 */
export function fakeNode(root: string): FakeNode {
  const escapes: string[] = [];
  const guarded = (paths: readonly string[], call: () => number): number => {
    const outside = paths.filter((file) => !path.resolve(file).startsWith(`${root}/`));
    escapes.push(...outside);
    return outside.length === 0 ? call() : -Errno.EACCES;
  };
  const refuse = (): number => -Errno.ENOSYS;
  const syscalls: FakeNode["syscalls"] = {
    ...real,
    socket: refuse,
    bind: refuse,
    connect: refuse,
    setsockopt: refuse,
    send: refuse,
    receiveFrom: refuse,
    setns: refuse,
    flock: () => 0,
    lock: () => 0,
    bpf: refuse,
    openBpf: refuse,
    open: (file, flags, mode) => {
      const changes = (flags & (OpenFlag.WRONLY | OpenFlag.RDWR | OpenFlag.CREAT)) !== 0;
      return guarded(changes ? [file] : [], () => real.open(file, flags, mode));
    },
    link: (existing, name) => guarded([existing, name], () => real.link(existing, name)),
    rename: (from, to) => guarded([from, to], () => real.rename(from, to)),
    unlink: (file) => guarded([file], () => real.unlink(file)),
    mkdir: (file, mode) => guarded([file], () => real.mkdir(file, mode)),
  };
  return {
    syscalls,
    sysctl: fakeSysctl(new Map()),
    files: systemFileSystem(syscalls),
    sha256,
    adding: () => adding,
    deleting: () => deleting,
    unwiring: () => unwiring,
    loopback: () => loopback,
    registering: () => registering,
    nodeRules: () => nodeRules,
    rare: () => rare,
    programs: () => {
      throw new Error("this node starts no program");
    },
    bootId: () => "00000000-0000-4000-8000-000000000000",
    escapes,
  };
}
