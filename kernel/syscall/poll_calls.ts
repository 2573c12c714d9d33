import { littleEndian } from "../netlink/writer.ts";

/** The calls of who waits for sockets, of the daemon alone. Results are as in {@link ./syscalls.ts}: negative is minus the errno. */
export interface PollCalls {
  /**
   * Waits on a thread of its own, while the event loop goes on, until one of the descriptors is ready, at most so long, and writes
   * down which.
   *
   * @param entries as {@link pollEntries} makes them; they are the call's until it settles
   * @returns how many are ready; 0 when the time is over
   */
  pollInBackground(entries: Uint8Array, milliseconds: number): Promise<number>;
  /** A counter in the kernel: a write adds to it, a read takes it, and it is readable while it is not zero. */
  eventfd(initial: number, flags: number): number;
  /**
   * Has the kernel give a socket only the packets that a program of classic BPF keeps (SO_ATTACH_FILTER).
   *
   * @param program an array of `struct sock_filter`
   */
  attachFilter(fd: number, program: Uint8Array): number;
}

/** struct pollfd: int fd, short events, short revents. */
export const POLLFD_SIZE = 8;
const POLLIN = 1;

/** Flags of eventfd(2) and of socket(2), as all architectures we run on have them. */
export const DescriptorFlag = { NONBLOCK: 0o4000, CLOEXEC: 0o2000000 } as const;

/** setsockopt(2) with SO_ATTACH_FILTER, as all architectures we run on have them. */
export const FilterOption = { LEVEL: 1, ATTACH: 26 } as const;
/** struct sock_filter */
const FILTER_INSTRUCTION_SIZE = 8;

/** A `struct sock_fprog`: the number of instructions and, at the boundary of eight bytes, where they are. */
export function filterProgram(program: Uint8Array, address: bigint): Uint8Array {
  const view = new DataView(new ArrayBuffer(16));
  view.setUint16(0, program.length / FILTER_INSTRUCTION_SIZE, littleEndian);
  view.setBigUint64(8, address, littleEndian);
  return new Uint8Array(view.buffer);
}

/** An array of `struct pollfd` that asks whether these descriptors can be read. */
export function pollEntries(fds: readonly number[]): Uint8Array {
  const entries = new Uint8Array(fds.length * POLLFD_SIZE);
  const view = new DataView(entries.buffer);
  for (const [i, fd] of fds.entries()) {
    view.setInt32(i * POLLFD_SIZE, fd, littleEndian);
    view.setInt16(i * POLLFD_SIZE + 4, POLLIN, littleEndian);
  }
  return entries;
}

/** Whether the entry at an index is ready: it can be read, or has failed, which a read then tells. */
export function isReady(entries: Uint8Array, index: number): boolean {
  const view = new DataView(entries.buffer, entries.byteOffset, entries.byteLength);
  return view.getInt16(index * POLLFD_SIZE + 6, littleEndian) !== 0;
}
