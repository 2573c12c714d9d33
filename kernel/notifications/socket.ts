import { DrawbridgeError } from "../error.ts";
import { outcomeOf } from "../netlink/error.ts";
import { ControlType, decodeMessages, encodeRequest, MessageFlag, type Request } from "../netlink/message.ts";
import { littleEndian } from "../byte_order.ts";
import { Writer } from "../byte_writer.ts";
import { Errno } from "../syscall/errno.ts";
import { DescriptorFlag, type PollCalls } from "../syscall/poll_calls.ts";
import { check, SyscallError, type Syscalls } from "../syscall/syscalls.ts";
import type { SourcePlan } from "./source.ts";

const AF_NETLINK = 16;
const SOCK_RAW = 3;
const SOL_SOCKET = 1;
const SO_RCVBUFFORCE = 33;
const SOL_NETLINK = 270;
const NETLINK_ADD_MEMBERSHIP = 1;
const NETLINK_DROP_MEMBERSHIP = 2;
const NETLINK_CAP_ACK = 10;
const MSG_TRUNC = 0x20;
const SOCKADDR_SIZE = 12;

/** The result of one read. "lost" usually stands for many lost messages. */
export type Reading =
  | { readonly kind: "datagram"; readonly datagram: Uint8Array }
  | { readonly kind: "nothing" }
  | { readonly kind: "lost" };

/**
 * A netlink socket for notifications, in the network namespace that the calling thread is in when it opens it.
 *
 * Reads never wait; poll(2) on {@link NotificationSocket.fd} reports when there is something to read.
 */
export class NotificationSocket {
  readonly fd: number;
  readonly #calls: Syscalls & Pick<PollCalls, "attachFilter">;
  readonly #buffer: Uint8Array;
  readonly #sender = new Uint8Array(SOCKADDR_SIZE);
  readonly #ignoredPortId: number | undefined;

  /**
   * Opens a socket and subscribes it as the plan says.
   *
   * @param plan of a socket that is open, only its descriptor
   * @param buffer receives the datagrams; sockets that are read in turn may share it
   * @throws SyscallError when the kernel refuses the socket or a group
   * @throws NetlinkError when it refuses a request of the plan (EPERM: another socket has the log group)
   */
  constructor(
    calls: Syscalls & Pick<PollCalls, "attachFilter">,
    plan: SourcePlan | { readonly fd: number },
    buffer: Uint8Array,
  ) {
    this.#calls = calls;
    this.#buffer = buffer;
    if ("fd" in plan) {
      this.fd = plan.fd;
      return;
    }
    this.#ignoredPortId = plan.ignoredPortId;
    const type = SOCK_RAW | DescriptorFlag.CLOEXEC | DescriptorFlag.NONBLOCK;
    this.fd = check(calls.socket(AF_NETLINK, type, plan.protocol), `netlink event socket ${plan.protocol}`);
    try {
      this.#prepare(plan);
    } catch (error) {
      this.close();
      throw error;
    }
  }

  #prepare(plan: SourcePlan): void {
    // Without CAP_NET_ADMIN over the machine the buffer keeps its size, which only makes losses more likely.
    this.#calls.setsockopt(this.fd, SOL_SOCKET, SO_RCVBUFFORCE, int(plan.receiveBufferBytes));
    this.#calls.setsockopt(this.fd, SOL_NETLINK, NETLINK_CAP_ACK, int(1));
    // If the kernel refuses the filter or has queued datagrams before, `read` drops them: each costs only a wake-up.
    if (plan.ignoredPortId !== undefined) this.#calls.attachFilter(this.fd, exceptPort(plan.ignoredPortId));
    // The kernel sends nothing to a socket without a port ID, which it takes for its own.
    const address = new Uint8Array(SOCKADDR_SIZE);
    new DataView(address.buffer).setUint16(0, AF_NETLINK, littleEndian);
    check(this.#calls.bind(this.fd, address), "bind netlink event socket");
    this.join(plan);
    for (const [i, message] of plan.requests.entries()) this.#carryOut(message, i + 1);
  }

  /** Joins the groups of the plan. @throws SyscallError when the kernel refuses one */
  join({ groups, protocol }: SourcePlan): void {
    for (const group of groups) {
      const joined = this.#calls.setsockopt(this.fd, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, int(group));
      check(joined, `join netlink group ${group} of protocol ${protocol}`);
    }
  }

  /** Leaves them. Received datagrams remain. */
  leave({ groups }: SourcePlan): void {
    for (const group of groups) this.#calls.setsockopt(this.fd, SOL_NETLINK, NETLINK_DROP_MEMBERSHIP, int(group));
  }

  /**
   * Returns a copy of the kernel's next datagram.
   *
   * @throws SyscallError when the socket is broken
   */
  read(): Reading {
    for (;;) {
      const length = this.#calls.receiveFrom(this.fd, this.#buffer, MSG_TRUNC, this.#sender);
      if (length === -Errno.EAGAIN) return { kind: "nothing" };
      if (length === -Errno.EINTR) continue;
      // ENOBUFS: the buffer was full, and the kernel drops messages until everything queued has been read.
      if (length === -Errno.ENOBUFS || length > this.#buffer.length) return { kind: "lost" };
      check(length, "read netlink event socket");
      // The kernel's port ID is 0. Other processes may send to a group as well.
      const portId = new DataView(this.#sender.buffer).getUint32(4, littleEndian);
      if (portId === 0 && !this.#isIgnored(length))
        return { kind: "datagram", datagram: this.#buffer.slice(0, length) };
    }
  }

  /** Sends a request. The kernel's answer is read like everything else. @returns negative is minus the errno */
  send(message: Request, flags = 0, sequence = 0): number {
    const writer = new Writer();
    encodeRequest(writer, message, flags, sequence);
    return this.#calls.send(this.fd, writer.view(), 0);
  }

  close(): void {
    this.#calls.close(this.fd);
  }

  /** All messages of a datagram are about one commit, so the first names its socket (nfnetlink: nft_commit_notify). */
  #isIgnored(length: number): boolean {
    if (this.#ignoredPortId === undefined || length < HEADER_PORT_ID + 4) return false;
    return (
      new DataView(this.#buffer.buffer, this.#buffer.byteOffset).getUint32(HEADER_PORT_ID, littleEndian) ===
      this.#ignoredPortId
    );
  }

  /** Sends a request. The kernel answers before send(2) returns. Earlier messages are dropped: nobody listens yet. */
  #carryOut(message: Request, sequence: number): void {
    check(this.send(message, MessageFlag.ACK, sequence), message.operation);
    for (let reading = this.read(); reading.kind !== "nothing"; reading = this.read()) {
      if (reading.kind === "lost") throw new SyscallError(message.operation, Errno.ENOBUFS);
      const answer = decodeMessages(reading.datagram).find(
        (received) => received.type === ControlType.ERROR && received.sequence === sequence,
      );
      if (answer === undefined) continue;
      const error = outcomeOf(message, answer.flags, answer.body);
      if (error !== undefined) throw error;
      return;
    }
    throw new DrawbridgeError("ERR_NETLINK", `${message.operation}: no answer from the kernel; try again`);
  }
}

function int(value: number): Uint8Array {
  return new Uint8Array(Int32Array.of(value).buffer);
}

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
const HEADER_PORT_ID = 12;

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
