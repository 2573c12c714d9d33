import { DrawbridgeError } from "../error.ts";
import { Errno } from "../syscall/errno.ts";
import type { Syscalls } from "../syscall/syscalls.ts";
import { check } from "../syscall/syscalls.ts";
import { NetlinkError, outcomeOf } from "./error.ts";
import type { ReceivedMessage, Request } from "./message.ts";
import { ControlType, decodeMessages, encodeRequest, MessageFlag } from "./message.ts";
import { littleEndian, Writer } from "./writer.ts";

const AF_NETLINK = 16;
const SOCK_RAW = 3;
const SOCK_CLOEXEC = 0o2000000;
const SOL_SOCKET = 1;
const SO_RCVTIMEO = 20;
const SOL_NETLINK = 270;
const NETLINK_CAP_ACK = 10;
const NETLINK_EXT_ACK = 11;
const NETLINK_GET_STRICT_CHK = 12;
const MSG_TRUNC = 0x20;

/** The kernel fills at most 32 KiB per datagram of a dump (netlink_dump); requests that ask for more get an error. */
const RECEIVE_BUFFER = 64 * 1024;
/** How long one answer may take. rtnl can be held for seconds by others; a plugin must not hang for ever. */
const RECEIVE_TIMEOUT_SECONDS = 10;
/** How often a dump that the kernel calls inconsistent is repeated before its last state is refused. */
const DUMP_ATTEMPTS = 10;
/** Answers queue in the socket's receive buffer (208 KiB by default) until they are read; a GET takes up to 4 KiB of it. */
const REQUESTS_PER_DATAGRAM = 32;

/** What the kernel answered to one request of a batch. */
export interface Reply {
  readonly request: Request;
  readonly error: NetlinkError | undefined;
  readonly messages: readonly ReceivedMessage[];
}

/**
 * A netlink socket for requests and their answers.
 *
 * Bound to the network namespace the calling thread was in when it was opened. Not for notifications. Sequence
 * numbers pair answers with requests; datagrams from anyone but the kernel and answers to earlier requests are
 * dropped.
 */
export class NetlinkSocket {
  readonly #syscalls: Syscalls;
  readonly #fd: number;
  readonly #buffer = new Uint8Array(RECEIVE_BUFFER);
  readonly #sender = new Uint8Array(12);
  #sequence = 0;

  /** @throws SyscallError when the kernel has no such protocol or refuses the socket */
  constructor(syscalls: Syscalls, protocol: number) {
    this.#syscalls = syscalls;
    this.#fd = check(syscalls.socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol), `netlink socket ${protocol}`);
    const on = new Uint8Array(Uint32Array.of(1).buffer);
    // Kernels before 4.20 lack the strict check and older ones the extended ACK: both only add comfort.
    syscalls.setsockopt(this.#fd, SOL_NETLINK, NETLINK_CAP_ACK, on);
    syscalls.setsockopt(this.#fd, SOL_NETLINK, NETLINK_EXT_ACK, on);
    syscalls.setsockopt(this.#fd, SOL_NETLINK, NETLINK_GET_STRICT_CHK, on);
    // struct timeval is two longs: 16 bytes on every 64-bit machine.
    const timeout = new Uint8Array(BigInt64Array.of(BigInt(RECEIVE_TIMEOUT_SECONDS), 0n).buffer);
    check(syscalls.setsockopt(this.#fd, SOL_SOCKET, SO_RCVTIMEO, timeout), "netlink receive timeout");
  }

  /**
   * Sends the requests, as many in one datagram as the kernel's answers fit the receive buffer, and reads every answer.
   *
   * The kernel carries them out in order, goes on after a refusal and always reports one (netlink_rcv_skb), so each
   * reply has its own outcome although only the last request of a datagram asks to be acknowledged.
   *
   * @throws SyscallError when sending or receiving fails; the outcome of the requests is then unknown
   */
  batch(requests: readonly Request[]): readonly Reply[] {
    const replies: Reply[] = [];
    for (let start = 0; start < requests.length; start += REQUESTS_PER_DATAGRAM) {
      replies.push(...this.#exchange(requests.slice(start, start + REQUESTS_PER_DATAGRAM)));
    }
    return replies;
  }

  #exchange(requests: readonly Request[]): readonly Reply[] {
    const writer = new Writer(1024);
    const first = this.#sequence + 1;
    const last = this.#sequence + requests.length;
    for (const message of requests) {
      const sequence = ++this.#sequence;
      encodeRequest(writer, message, sequence === last ? MessageFlag.ACK : 0, sequence);
    }
    this.#send(writer.view());
    const replies = requests.map((message) => ({
      request: message,
      error: undefined as NetlinkError | undefined,
      messages: [] as ReceivedMessage[],
    }));
    for (let isDone = requests.length === 0; !isDone;) {
      for (const message of this.#receive()) {
        const reply = replies[message.sequence - first];
        if (reply === undefined) continue;
        if (message.type === ControlType.ERROR) {
          reply.error = outcomeOf(reply.request, message.flags, message.body);
          isDone ||= message.sequence === last;
        } else if (message.type > ControlType.OVERRUN) {
          reply.messages.push({ ...message, body: message.body.slice() });
        }
      }
    }
    return replies;
  }

  /**
   * Carries out one request.
   *
   * @returns the messages the kernel answered with (one for a GET, none for most others)
   * @throws NetlinkError when the kernel refuses it
   */
  request(message: Request): readonly ReceivedMessage[] {
    const [reply] = this.batch([message]);
    if (reply?.error !== undefined) throw reply.error;
    return reply?.messages ?? [];
  }

  /**
   * Carries out the requests in order and demands that all succeed.
   *
   * @throws NetlinkError the first refusal; requests behind it have been carried out all the same
   */
  requestAll(requests: readonly Request[]): void {
    for (const reply of this.batch(requests)) if (reply.error !== undefined) throw reply.error;
  }

  /**
   * Lists objects. A dump the kernel marks as interrupted (NLM_F_DUMP_INTR) is repeated from the start.
   *
   * @throws NetlinkError when the kernel refuses it or stays inconsistent
   */
  dump(message: Request): readonly ReceivedMessage[] {
    for (let attempt = 0; attempt < DUMP_ATTEMPTS; attempt++) {
      const messages = this.#dumpOnce(message);
      if (messages !== undefined) return messages;
    }
    throw new NetlinkError(message.operation, Errno.EINTR, `changed during each of ${DUMP_ATTEMPTS} dumps`);
  }

  close(): void {
    this.#syscalls.close(this.#fd);
  }

  #dumpOnce(message: Request): readonly ReceivedMessage[] | undefined {
    const writer = new Writer(256);
    const sequence = ++this.#sequence;
    encodeRequest(writer, message, MessageFlag.DUMP, sequence);
    this.#send(writer.view());
    const messages: ReceivedMessage[] = [];
    let interrupted = false;
    for (;;) {
      for (const received of this.#receive()) {
        if (received.sequence !== sequence) continue;
        if ((received.flags & MessageFlag.DUMP_INTR) !== 0) interrupted = true;
        if (received.type === ControlType.ERROR) {
          const error = outcomeOf(message, received.flags, received.body);
          if (error !== undefined) throw error;
        } else if (received.type === ControlType.DONE) {
          const error = dumpOutcome(message, received.body);
          if (error !== undefined) throw error;
          return interrupted ? undefined : messages;
        } else if (received.type > ControlType.OVERRUN) {
          messages.push({ ...received, body: received.body.slice() });
        }
      }
    }
  }

  #send(data: Uint8Array): void {
    let sent: number;
    do sent = this.#syscalls.send(this.#fd, data, 0);
    while (sent === -Errno.EINTR);
    check(sent, "netlink send");
  }

  /** The messages of the next datagram of the kernel; an empty iteration for a stranger's. */
  #receive(): Iterable<ReceivedMessage> {
    let length: number;
    do length = this.#syscalls.receiveFrom(this.#fd, this.#buffer, MSG_TRUNC, this.#sender);
    while (length === -Errno.EINTR);
    if (length === -Errno.EAGAIN) {
      throw new DrawbridgeError("ERR_NETLINK", `netlink: no answer from the kernel in ${RECEIVE_TIMEOUT_SECONDS} s`);
    }
    check(length, "netlink receive");
    if (length > this.#buffer.length) {
      throw new DrawbridgeError(
        "ERR_NETLINK_MALFORMED",
        `netlink datagram: ${length} bytes; expected at most ${RECEIVE_BUFFER}`,
      );
    }
    // struct sockaddr_nl: family, pad, port id; the kernel's port id is 0, a process has another.
    const portId = new DataView(this.#sender.buffer).getUint32(4, littleEndian);
    return portId === 0 ? decodeMessages(this.#buffer.subarray(0, length)) : [];
  }
}

/** NLMSG_DONE carries the dump's result as an int: negative when it failed on the way. */
function dumpOutcome(message: Request, body: Uint8Array): NetlinkError | undefined {
  if (body.length < 4) return undefined;
  const result = new DataView(body.buffer, body.byteOffset, body.byteLength).getInt32(0, littleEndian);
  return result < 0 ? new NetlinkError(message.operation, -result) : undefined;
}
