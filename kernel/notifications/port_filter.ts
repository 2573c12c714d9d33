import { littleEndian } from "../byte_order.ts";

/** struct sock_filter: u16 code, u8 jt, u8 jf, u32 k (include/uapi/linux/filter.h). */
const INSTRUCTION_SIZE = 8;
/** BPF_LD | BPF_W | BPF_ABS: loads a word of the packet in network byte order. */
const LOAD_WORD = 0x20;
/** BPF_JMP | BPF_JEQ | BPF_K */
const JUMP_IF_EQUAL = 0x15;
/** BPF_RET | BPF_K: returns the number of bytes of the packet to keep. */
const RETURN = 0x06;
const ALL = 0xffff_ffff;

/** The offset of nlmsg_pid in struct nlmsghdr: in a notification, the socket whose request caused it. */
export const HEADER_PORT_ID = 12;

/**
 * Returns a classic BPF program that drops netlink datagrams about one socket's requests, by their first message.
 *
 * The kernel runs it before it queues a datagram (netlink: do_one_broadcast), so that no reader wakes up.
 */
export function exceptPort(portId: number): Uint8Array {
  const bytes = new DataView(new ArrayBuffer(4));
  bytes.setUint32(0, portId, littleEndian);
  const program = [
    { code: LOAD_WORD, ifTrue: 0, ifFalse: 0, value: HEADER_PORT_ID },
    { code: JUMP_IF_EQUAL, ifTrue: 0, ifFalse: 1, value: bytes.getUint32(0, false) },
    { code: RETURN, ifTrue: 0, ifFalse: 0, value: 0 },
    { code: RETURN, ifTrue: 0, ifFalse: 0, value: ALL },
  ];
  const view = new DataView(new ArrayBuffer(program.length * INSTRUCTION_SIZE));
  for (const [i, { code, ifTrue, ifFalse, value }] of program.entries()) {
    view.setUint16(i * INSTRUCTION_SIZE, code, littleEndian);
    view.setUint8(i * INSTRUCTION_SIZE + 2, ifTrue);
    view.setUint8(i * INSTRUCTION_SIZE + 3, ifFalse);
    view.setUint32(i * INSTRUCTION_SIZE + 4, value, littleEndian);
  }
  return new Uint8Array(view.buffer);
}
