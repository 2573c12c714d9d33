import { littleEndian } from "../netlink/writer.ts";

/**
 * The calls of a unix socket server without an event loop. Negative is minus the errno, as in syscalls.ts.
 */
export interface ServerCalls {
  listen(fd: number, backlog: number): number;
  /** accept4(2) without the client's address. */
  accept(fd: number, flags: number): number;
  /**
   * recvmsg(2) of one message, without waiting for it.
   *
   * @param control receives the ancillary data, which {@link descriptorsIn} reads
   * @returns the message's length
   */
  receiveMessage(fd: number, buffer: Uint8Array, control: Uint8Array): number;
  /** fcntl(2) with F_ADD_SEALS. */
  addSeals(fd: number, seals: number): number;
  /** poll(2); entries as `pollEntries` makes them. */
  poll(entries: Uint8Array, milliseconds: number): number;
  /** alarm(2): SIGALRM ends the process after this number of seconds, unless another call comes first; 0 for never. */
  alarm(seconds: number): number;
}

/** The size of struct msghdr on every 64-bit machine, and offsets of its fields. */
export const MSGHDR_SIZE = 56;
const CONTROL_LENGTH = 40;
const MESSAGE_FLAGS = 48;
/** Flags that report truncation. */
const MSG_TRUNC = 0x20;
const MSG_CTRUNC = 0x8;

/** size_t cmsg_len, int cmsg_level, int cmsg_type. */
const CMSGHDR_SIZE = 16;
const SOL_SOCKET = 1;
const SCM_RIGHTS = 1;

/** Returns the space for a number of descriptors: control messages are aligned to 8 bytes (CMSG_SPACE). */
export function controlSize(descriptors: number): number {
  return CMSGHDR_SIZE + Math.ceil((descriptors * 4) / 8) * 8;
}

/** Writes a struct msghdr for one buffer, by the addresses of its parts. @param vector 16 bytes for the struct iovec */
export function messageHeader(
  header: DataView,
  vector: { readonly view: DataView; readonly address: bigint },
  buffer: { readonly address: bigint; readonly length: number },
  control: { readonly address: bigint; readonly length: number },
): void {
  vector.view.setBigUint64(0, buffer.address, littleEndian);
  vector.view.setBigUint64(8, BigInt(buffer.length), littleEndian);
  for (let offset = 0; offset < MSGHDR_SIZE; offset += 8) header.setBigUint64(offset, 0n, littleEndian);
  header.setBigUint64(16, vector.address, littleEndian);
  header.setBigUint64(24, 1n, littleEndian);
  header.setBigUint64(32, control.address, littleEndian);
  header.setBigUint64(CONTROL_LENGTH, BigInt(control.length), littleEndian);
}

/** Tells whether the message or its descriptors were truncated; what did not fit is lost or closed. */
export function isCut(header: DataView): boolean {
  return (header.getInt32(MESSAGE_FLAGS, littleEndian) & (MSG_TRUNC | MSG_CTRUNC)) !== 0;
}

/** Returns the descriptors of a control buffer's first message (unix(7), SCM_RIGHTS); a sender's are always in one. */
export function descriptorsIn(control: Uint8Array): readonly number[] {
  if (control.length < CMSGHDR_SIZE) return [];
  const view = new DataView(control.buffer, control.byteOffset, control.byteLength);
  const length = Math.min(Number(view.getBigUint64(0, littleEndian)), control.length);
  if (view.getInt32(8, littleEndian) !== SOL_SOCKET || view.getInt32(12, littleEndian) !== SCM_RIGHTS) return [];
  const descriptors: number[] = [];
  for (let offset = CMSGHDR_SIZE; offset + 4 <= length; offset += 4)
    descriptors.push(view.getInt32(offset, littleEndian));
  return descriptors;
}
