import { littleEndian } from "../byte_order.ts";

/** The calls to wait for sockets, only for the daemon. Negative results are minus the errno (syscalls.ts). */
export interface PollCalls {
  /**
   * Waits on another thread, while the event loop goes on, until a descriptor is ready or the time is over, and records
   * which descriptors are ready.
   *
   * @param entries as {@link pollEntries} makes them; nothing else may use them until the call settles
   * @returns the number of ready descriptors; 0 when the time is over
   */
  pollInBackground(entries: Uint8Array, milliseconds: number): Promise<number>;
  /** Likewise, but blocks the calling thread. With -1 milliseconds it waits without a limit. */
  poll(entries: Uint8Array, milliseconds: number): number;
  /** Makes a kernel counter: a write adds to it, a read takes it all, and it is readable while it is not zero. */
  eventfd(initial: number, flags: number): number;
  /**
   * Makes the kernel give a socket only the packets that a classic BPF program accepts (SO_ATTACH_FILTER).
   *
   * @param program an array of `struct sock_filter`
   */
  attachFilter(fd: number, program: Uint8Array): number;
}

/** struct pollfd: int fd, short events, short revents. */
export const POLLFD_SIZE = 8;
const POLLIN = 1;

/** Flags of eventfd(2) and socket(2), the same on all supported architectures. */
export const DescriptorFlag = { NONBLOCK: 0o4000, CLOEXEC: 0o2000000 } as const;

/** setsockopt(2) with SO_ATTACH_FILTER, the same on all supported architectures. */
export const FilterOption = { LEVEL: 1, ATTACH: 26 } as const;
/** struct sock_filter */
const FILTER_INSTRUCTION_SIZE = 8;

/** Returns a `struct sock_fprog`: the number of instructions and, aligned to eight bytes, their address. */
export function filterProgram(program: Uint8Array, address: bigint): Uint8Array {
  const view = new DataView(new ArrayBuffer(16));
  view.setUint16(0, program.length / FILTER_INSTRUCTION_SIZE, littleEndian);
  view.setBigUint64(8, address, littleEndian);
  return new Uint8Array(view.buffer);
}

/** Returns an array of `struct pollfd` to check whether these descriptors can be read. */
export function pollEntries(fds: readonly number[]): Uint8Array {
  const entries = new Uint8Array(fds.length * POLLFD_SIZE);
  const view = new DataView(entries.buffer);
  for (const [i, fd] of fds.entries()) {
    view.setInt32(i * POLLFD_SIZE, fd, littleEndian);
    view.setInt16(i * POLLFD_SIZE + 4, POLLIN, littleEndian);
  }
  return entries;
}

/** Tells whether the entry at an index is ready: it can be read, or has failed, which a read then reports. */
export function isReady(entries: Uint8Array, index: number): boolean {
  const view = new DataView(entries.buffer, entries.byteOffset, entries.byteLength);
  return view.getInt16(index * POLLFD_SIZE + 6, littleEndian) !== 0;
}
