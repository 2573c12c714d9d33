import os from "node:os";
import koffi from "koffi";
import { nodeSyscalls } from "../../kernel/syscall/koffi.ts";
import type { BackgroundCalls } from "../../kernel/syscall/background_calls.ts";
import type { BpfCalls } from "../../kernel/syscall/bpf_calls.ts";
import type { FileCalls } from "../../kernel/syscall/file_calls.ts";
import type { NamespaceCalls } from "../../kernel/syscall/namespace_calls.ts";
import { type PollCalls, POLLFD_SIZE } from "../../kernel/syscall/poll_calls.ts";
import type { Syscalls } from "../../kernel/syscall/syscalls.ts";

/**
 * The system calls that only the lab makes: for namespaces and mounts, and for sockets that carry test traffic.
 *
 * As in {@link Syscalls}, each returns zero or more on success and minus the errno on failure, and acts on the calling
 * thread.
 */
export interface LabCalls extends Syscalls, FileCalls, PollCalls, BackgroundCalls, BpfCalls, NamespaceCalls {
  mount(source: string, target: string, type: string, flags: number): number;
  umount2(target: string, flags: number): number;
  connect(fd: number, address: Uint8Array): number;
  listen(fd: number, backlog: number): number;
  /** Fills `peer`; returns the connection's descriptor. */
  accept4(fd: number, peer: Uint8Array, flags: number): number;
  /** Blocks the calling thread; otherwise like `pollInBackground`. */
  poll(entries: Uint8Array, milliseconds: number): number;
  sendTo(fd: number, data: Uint8Array, flags: number, address: Uint8Array): number;
  getsockopt(fd: number, level: number, option: number, value: Uint8Array): number;
  /** Controls a device; the request reads and writes `value`. */
  ioctl(fd: number, request: number, value: Uint8Array): number;
  /** Controls a device by a request whose argument is a number, not an address. */
  ioctlByNumber(fd: number, request: number, value: number): number;
  prctl(option: number, value: number): number;
  /** Restores a signal's default action. */
  resetSignal(signal: NodeJS.Signals): void;
}

type NativeCall = (...args: readonly unknown[]) => number;

/** Returns the calls through koffi. */
export function labCalls(): LabCalls {
  const libc = koffi.load("libc.so.6");
  const wrap =
    (native: (...args: unknown[]) => unknown): NativeCall =>
    (...args) => {
      const result = Number(native(...args));
      return result === -1 ? -koffi.errno() : result;
    };
  const declare = (prototype: string): NativeCall => wrap(libc.func(prototype));
  const mount = declare(
    "int mount(const char *source, const char *target, const char *type, unsigned long flags, void *data)",
  );
  const umount2 = declare("int umount2(const char *target, int flags)");
  const connect = declare("int connect(int fd, const uint8_t *address, uint32_t length)");
  const listen = declare("int listen(int fd, int backlog)");
  const accept4 = declare("int accept4(int fd, _Out_ uint8_t *address, _Inout_ uint32_t *length, int flags)");
  const poll = declare("int poll(_Inout_ uint8_t *entries, unsigned long count, int milliseconds)");
  const sendto = declare(
    "int64_t sendto(int fd, const uint8_t *data, size_t length, int flags, const uint8_t *address, uint32_t addressLength)",
  );
  const getsockopt = declare(
    "int getsockopt(int fd, int level, int option, _Out_ uint8_t *value, _Inout_ uint32_t *length)",
  );
  const ioctl = declare("int ioctl(int fd, unsigned long request, _Inout_ uint8_t *value)");
  const ioctlByNumber = declare("int ioctl(int fd, unsigned long request, unsigned long value)");
  const prctl = declare(
    "int prctl(int option, unsigned long value, unsigned long a, unsigned long b, unsigned long c)",
  );
  const signal: (...args: unknown[]) => unknown = libc.func("void *signal(int signal, void *action)");
  const length = new Uint32Array(1);
  return {
    ...nodeSyscalls(),
    mount: (source, target, type, flags) => mount(source, target, type, flags, null),
    umount2,
    connect: (fd, address) => connect(fd, address, address.length),
    listen,
    accept4: (fd, peer, flags) => {
      length[0] = peer.length;
      return accept4(fd, peer, length, flags);
    },
    poll: (entries, milliseconds) => poll(entries, entries.length / POLLFD_SIZE, milliseconds),
    sendTo: (fd, data, flags, address) => sendto(fd, data, data.length, flags, address, address.length),
    getsockopt: (fd, level, option, value) => {
      length[0] = value.length;
      return getsockopt(fd, level, option, value, length);
    },
    ioctl,
    ioctlByNumber,
    prctl: (option, value) => prctl(option, value, 0, 0, 0),
    resetSignal: (name) => void signal(os.constants.signals[name], null),
  };
}
