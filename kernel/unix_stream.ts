import { DrawbridgeError } from "./error.ts";
import { Errno, errnoName, errnoText } from "./syscall/errno.ts";
import { check, type Syscalls } from "./syscall/syscalls.ts";
import { littleEndian } from "./byte_order.ts";
import type { Waiting } from "./waiting.ts";

const AF_UNIX = 1;
const SOCK_STREAM = 1;
const SOCK_CLOEXEC = 0o2000000;
const SOL_SOCKET = 1;
const SO_RCVTIMEO = 20;
const SO_SNDTIMEO = 21;
/** Without this flag, SIGPIPE would end the process when the peer has gone. */
export const MSG_NOSIGNAL = 0x4000;
/** The size of sun_path in struct sockaddr_un, including the NUL. */
const PATH_SIZE = 108;
const CHUNK = 16 * 1024;

const encoder = new TextEncoder();

/**
 * A connection to a unix socket. It blocks its thread, because the plugin has no event loop, but never beyond one
 * deadline for all operations.
 */
export class UnixStream {
  readonly #syscalls: Syscalls;
  /** The descriptor to poll for received bytes. */
  readonly fd: number;
  readonly #path: string;
  readonly #waiting: Waiting;
  readonly #deadline: number;
  readonly #buffer = new Uint8Array(CHUNK);
  readonly #sender = new Uint8Array(PATH_SIZE + 2);
  #hasLookedLate = false;

  /**
   * Connects.
   *
   * @param milliseconds the time for everything until the connection is closed
   * @throws DrawbridgeError ERR_UNAVAILABLE when nobody listens there or the time is over, ERR_CONFIGURATION for a path
   *   that is too long
   */
  constructor(syscalls: Syscalls, path: string, milliseconds: number, waiting: Waiting) {
    this.#syscalls = syscalls;
    this.#path = path;
    this.#waiting = waiting;
    this.#deadline = waiting.now() + milliseconds;
    const address = socketAddress(path);
    this.fd = check(syscalls.socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), `socket for ${path}`);
    try {
      // A full backlog blocks connect(2) for as long as sending may block (unix_stream_connect).
      this.#repeat(SO_SNDTIMEO, "connect to", () => syscalls.connect(this.fd, address));
    } catch (error) {
      syscalls.close(this.fd);
      throw error;
    }
  }

  /** Sends all of the data. @throws DrawbridgeError ERR_UNAVAILABLE */
  send(data: Uint8Array): void {
    for (let sent = 0; sent < data.length;) {
      const rest = data.subarray(sent);
      sent += this.#repeat(SO_SNDTIMEO, "send to", () => this.#syscalls.send(this.fd, rest, MSG_NOSIGNAL));
    }
  }

  /**
   * Waits for the next bytes and returns them; none when the other side has closed. The next call overwrites them.
   *
   * @throws DrawbridgeError ERR_UNAVAILABLE
   */
  receive(): Uint8Array {
    const length = this.#repeat(SO_RCVTIMEO, "receive from", () =>
      this.#syscalls.receiveFrom(this.fd, this.#buffer, 0, this.#sender),
    );
    return this.#buffer.subarray(0, length);
  }

  close(): void {
    this.#syscalls.close(this.fd);
  }

  /** Returns the ms left; after the deadline, once, 1 ms to read bytes that came in time for a late thread. */
  #left(isLook: boolean): number {
    const left = Math.ceil(this.#deadline - this.#waiting.now());
    if (left > 0 || !isLook || this.#hasLookedLate) return left;
    this.#hasLookedLate = true;
    return 1;
  }

  /** Makes a call that may block for the remaining time, and repeats it after a signal. */
  #repeat(timeout: number, action: string, call: () => number): number {
    for (let isLook = timeout === SO_RCVTIMEO; ; isLook = false) {
      const left = this.#left(isLook);
      if (left <= 0) throw unavailable(action, this.#path, Errno.ETIMEDOUT);
      check(this.#syscalls.setsockopt(this.fd, SOL_SOCKET, timeout, timeval(left)), `timeout of ${this.#path}`);
      const result = call();
      if (result >= 0) return result;
      if (result !== -Errno.EINTR && result !== -Errno.EAGAIN) throw unavailable(action, this.#path, -result);
      // EAGAIN: the time set above is over, or a socket that cannot wait has a full backlog. The loop decides.
      if (result === -Errno.EAGAIN && this.#deadline - this.#waiting.now() > 0) this.#waiting.pause(1);
    }
  }
}

function unavailable(action: string, path: string, errno: number): DrawbridgeError {
  return new DrawbridgeError(
    "ERR_UNAVAILABLE",
    `cannot ${action} ${path}: ${errnoText(errno)} (${errnoName(errno)}); is policyd running?`,
  );
}

/**
 * Returns struct sockaddr_un: family, path, NUL.
 *
 * @throws DrawbridgeError ERR_CONFIGURATION when the path is too long
 */
export function socketAddress(path: string): Uint8Array {
  const name = encoder.encode(path);
  if (name.length === 0 || name.length >= PATH_SIZE || name.includes(0)) {
    throw new DrawbridgeError(
      "ERR_CONFIGURATION",
      `socket ${JSON.stringify(path)}: ${name.length} bytes; expected a path of 1 to ${PATH_SIZE - 1} bytes`,
    );
  }
  const address = new Uint8Array(2 + name.length + 1);
  new DataView(address.buffer).setUint16(0, AF_UNIX, littleEndian);
  address.set(name, 2);
  return address;
}

/** Returns struct timeval: two longs, which are 16 bytes on every 64-bit machine. */
export function timeval(milliseconds: number): Uint8Array {
  const seconds = Math.floor(milliseconds / 1000);
  return new Uint8Array(BigInt64Array.of(BigInt(seconds), BigInt((milliseconds - seconds * 1000) * 1000)).buffer);
}
