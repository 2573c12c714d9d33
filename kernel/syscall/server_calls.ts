import { littleEndian } from "../netlink/writer.ts";

/** The calls of a server on a unix socket that has no event loop. Results are as in {@link ./syscalls.ts}: negative is minus the errno. */
export interface ServerCalls {
  listen(fd: number, backlog: number): number;
  /** accept4(2) without the address of who connects. */
  accept(fd: number, flags: number): number;
  /**
   * recvmsg(2) of one message, without waiting for it.
   *
   * @param control gets what came with it, as {@link descriptorsIn} reads it
   * @returns the message's length
   */
  receiveMessage(fd: number, buffer: Uint8Array, control: Uint8Array): number;
  /** fcntl(2) with F_ADD_SEALS. */
  addSeals(fd: number, seals: number): number;
  /** poll(2); entries as `pollEntries` makes them. */
  poll(entries: Uint8Array, milliseconds: number): number;
  /** alarm(2): the process ends by SIGALRM after so many seconds, unless it is asked again before; 0 for never. */
  alarm(seconds: number): number;
}

/** struct msghdr on every 64-bit machine, and where its parts are. */
export const MSGHDR_SIZE = 56;
const CONTROL_LENGTH = 40;
const MESSAGE_FLAGS = 48;
/** Something did not fit. */
const MSG_TRUNC = 0x20;
const MSG_CTRUNC = 0x8;

/** size_t cmsg_len, int cmsg_level, int cmsg_type. */
const CMSGHDR_SIZE = 16;
const SOL_SOCKET = 1;
const SCM_RIGHTS = 1;

/** The space for so many descriptors: control messages are aligned to 8 bytes (CMSG_SPACE). */
export function controlSize(descriptors: number): number {
  return CMSGHDR_SIZE + Math.ceil((descriptors * 4) / 8) * 8;
}

/** A struct msghdr for one buffer, by the addresses of its parts. @param vector 16 bytes, gets the struct iovec */
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

/** Whether the message or its descriptors were cut: what did not fit is lost, or closed. */
export function isCut(header: DataView): boolean {
  return (header.getInt32(MESSAGE_FLAGS, littleEndian) & (MSG_TRUNC | MSG_CTRUNC)) !== 0;
}

/** The descriptors of a control buffer's first message (unix(7), SCM_RIGHTS); a sender's are in one, whatever it sends. */
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
