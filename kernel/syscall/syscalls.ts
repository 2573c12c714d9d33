import { DrawbridgeError } from "../error.ts";
import { errnoName, errnoText } from "./errno.ts";

/**
 * The system calls Drawbridge makes for sockets, namespaces and locks; those for files are in `file_calls.ts`.
 *
 * Each returns what the kernel returns: zero or more on success, minus the errno on failure. Nothing throws, so a
 * caller that expects EAGAIN or EEXIST reads a number; {@link check} turns the rest into an error. Two backends:
 * `bun.ts` for the plugin, `node.ts` for the daemon and the tests. All calls act on the calling thread, which for
 * {@link Syscalls.setns} is the point.
 */
export interface Syscalls {
  socket(domain: number, type: number, protocol: number): number;
  bind(fd: number, address: Uint8Array): number;
  /** Blocks as long as SO_SNDTIMEO lets it. */
  connect(fd: number, address: Uint8Array): number;
  setsockopt(fd: number, level: number, option: number, value: Uint8Array): number;
  send(fd: number, data: Uint8Array, flags: number): number;
  /** Fills `buffer` and `sender`; returns the length of the datagram, which with MSG_TRUNC may exceed the buffer. */
  receiveFrom(fd: number, buffer: Uint8Array, flags: number, sender: Uint8Array): number;
  setns(fd: number, namespaceType: number): number;
  flock(fd: number, operation: number): number;
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
 * The result of a system call, when it succeeded.
 *
 * @param operation what was attempted, for the message ("setns /run/netns/a")
 * @throws SyscallError when `result` is a negated errno
 */
export function check(result: number, operation: string): number {
  if (result < 0) throw new SyscallError(operation, -result);
  return result;
}
