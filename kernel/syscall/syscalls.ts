import { DrawbridgeError } from "../error.ts";
import { errnoName, errnoText } from "./errno.ts";

/**
 * The system calls that Drawbridge makes for sockets, namespaces and locks; those for files are in `file_calls.ts`.
 *
 * Each returns the kernel's result: zero or more on success, minus the errno on failure. None throws, so a caller that
 * expects EAGAIN or EEXIST compares a number; {@link check} turns the rest into an error. There are two backends:
 * `native.ts` for the plugin, `koffi.ts` for the daemon and the tests. All calls act on the calling thread, which is the
 * purpose of {@link Syscalls.setns}.
 */
export interface Syscalls {
  socket(domain: number, type: number, protocol: number): number;
  bind(fd: number, address: Uint8Array): number;
  /** Blocks for at most SO_SNDTIMEO. */
  connect(fd: number, address: Uint8Array): number;
  setsockopt(fd: number, level: number, option: number, value: Uint8Array): number;
  send(fd: number, data: Uint8Array, flags: number): number;
  /** Fills `buffer` and `sender`; returns the datagram's length, which with MSG_TRUNC may exceed the buffer. */
  receiveFrom(fd: number, buffer: Uint8Array, flags: number, sender: Uint8Array): number;
  setns(fd: number, namespaceType: number): number;
  flock(fd: number, operation: number): number;
  /** flock(2) with LOCK_EX, which waits for other holders; -EAGAIN when the time in milliseconds is over. */
  lock(fd: number, milliseconds: number): number;
  close(fd: number): number;
}

/** A system call failed. `errno` is positive; `errnoName` is its symbol ("ENOENT"). */
export class SyscallError extends DrawbridgeError {
  override readonly name = "SyscallError";
  readonly errno: number;
  readonly errnoName: string;

  constructor(operation: string, errno: number, code: "ERR_SYSCALL" | "ERR_NAMESPACE" = "ERR_SYSCALL") {
    super(code, `${operation}: ${errnoName(errno)} (${errnoText(errno)})`);
    this.errno = errno;
    this.errnoName = errnoName(errno);
  }
}

/**
 * Returns the result of a system call when it succeeded.
 *
 * @param operation the attempted operation, for the message ("setns /run/netns/a")
 * @throws SyscallError when `result` is a negated errno
 */
export function check(result: number, operation: string): number {
  if (result < 0) throw new SyscallError(operation, -result);
  return result;
}
