import { DrawbridgeError } from "../error.ts";
import type { BackgroundCalls } from "../syscall/background_calls.ts";
import { Errno } from "../syscall/errno.ts";
import { check, type Syscalls } from "../syscall/syscalls.ts";
import { dumpOutcome, NetlinkError, outcomeOf } from "./error.ts";
import {
  ControlType,
  decodeMessages,
  encodeRequest,
  MessageFlag,
  type ReceivedMessage,
  type Request,
} from "./message.ts";
import { NETLINK_NETFILTER } from "./netfilter_message.ts";
import { littleEndian } from "../byte_order.ts";
import { Writer } from "../byte_writer.ts";

const AF_NETLINK = 16;
const SOCK_RAW = 3;
const SOCK_CLOEXEC = 0o2000000;
const SOL_SOCKET = 1;
const SO_RCVTIMEO = 20;
const SO_SNDBUFFORCE = 32;
const SO_RCVBUFFORCE = 33;
const SOL_NETLINK = 270;
const NETLINK_CAP_ACK = 10;
const NETLINK_EXT_ACK = 11;
const NETLINK_GET_STRICT_CHK = 12;
const MSG_TRUNC = 0x20;
const MSG_DONTWAIT = 0x40;

/** The kernel fills at most 32 KiB per datagram of a dump (netlink_dump), and answers larger requests with an error. */
const RECEIVE_BUFFER = 64 * 1024;
/** The longest wait for one answer. Others may hold rtnl for seconds, but a plugin must not hang forever. */
const RECEIVE_TIMEOUT_SECONDS = 10;
/** The number of attempts at a dump that the kernel marks as inconsistent, before it counts as failed. */
const DUMP_ATTEMPTS = 10;
/**
 * Answers queue in the socket's receive buffer (208 KiB by default), of which the answer to a GET takes up to 4 KiB.
 */
const REQUESTS_PER_DATAGRAM = 32;

/** The kernel's answer to one request of a batch. */
export interface Reply {
  readonly request: Request;
  readonly error: NetlinkError | undefined;
  readonly messages: readonly ReceivedMessage[];
}

export interface NetlinkSocketOptions {
  /** The size of both queues, for large batches. It may exceed the system's limits and needs CAP_NET_ADMIN. */
  readonly bufferBytes?: number;
  /** The number by which notifications name this socket; chosen by the kernel when absent. */
  readonly portId?: number;
}

/**
 * A netlink socket for requests and their answers, not for notifications.
 *
 * It belongs to the network namespace that the calling thread was in when it opened it. Sequence numbers pair answers
 * with requests. Datagrams that are not from the kernel, and answers to earlier requests, are dropped.
 */
export class NetlinkSocket {
  readonly #syscalls: Syscalls;
  readonly #fd: number;
  readonly #buffer = new Uint8Array(RECEIVE_BUFFER);
  readonly #sender = new Uint8Array(12);
  #sequence = 0;

  /** @throws SyscallError when the kernel does not have the protocol or refuses the socket or an option */
  constructor(syscalls: Syscalls, protocol: number, options: NetlinkSocketOptions = {}) {
    this.#syscalls = syscalls;
    const result = syscalls.socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);
    this.#fd = check(result, `netlink socket ${protocol}${wayOut(protocol, -result)}`);
    try {
      this.#configure(options);
    } catch (error) {
      this.close();
      throw error;
    }
  }

  #configure({ bufferBytes, portId }: NetlinkSocketOptions): void {
    const on = new Uint8Array(Uint32Array.of(1).buffer);
    for (const option of [NETLINK_CAP_ACK, NETLINK_EXT_ACK, NETLINK_GET_STRICT_CHK])
      this.#syscalls.setsockopt(this.#fd, SOL_NETLINK, option, on);
    // struct timeval is two longs: 16 bytes on every 64-bit machine.
    const timeout = new Uint8Array(BigInt64Array.of(BigInt(RECEIVE_TIMEOUT_SECONDS), 0n).buffer);
    check(this.#syscalls.setsockopt(this.#fd, SOL_SOCKET, SO_RCVTIMEO, timeout), "netlink receive timeout");
    if (bufferBytes !== undefined) {
      const size = new Uint8Array(Int32Array.of(bufferBytes).buffer);
      check(this.#syscalls.setsockopt(this.#fd, SOL_SOCKET, SO_SNDBUFFORCE, size), "netlink send buffer");
      check(this.#syscalls.setsockopt(this.#fd, SOL_SOCKET, SO_RCVBUFFORCE, size), "netlink receive buffer");
    }
    if (portId !== undefined) {
      // struct sockaddr_nl: family, pad, port id, groups.
      const address = new Uint8Array(Uint32Array.of(0, portId, 0).buffer);
      address.set(new Uint8Array(Uint16Array.of(AF_NETLINK).buffer));
      check(this.#syscalls.bind(this.#fd, address), `netlink port ${portId}`);
    }
  }

  /**
   * Sends requests and reads every answer. One datagram has as many requests as answers fit the receive buffer.
   *
   * The kernel carries them out in order, continues after a refusal and always reports one (netlink_rcv_skb). So each
   * reply has its own outcome although only the last request of a datagram asks for an acknowledgement.
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

  /**
   * Carries out requests of which the kernel applies all or none. The first and the last of them frame the batch.
   *
   * The reply to each refused request has its error; when the commit itself fails, the first reply has it. When
   * refusals overrun the receive buffer, only the first ones are reported.
   *
   * @throws SyscallError when sending or receiving fails; whether the batch took effect is then unknown
   */
  transaction(requests: readonly Request[]): readonly Reply[] {
    // The kernel acknowledges the frame's end only since 6.10, so the request before it asks for the acknowledgement.
    return this.#exchange(requests, requests.length - 2);
  }

  /**
   * Carries out one request that may take long, while the event loop goes on. Nothing else may use the socket until the
   * promise settles.
   *
   * @throws SyscallError when sending or receiving fails; the outcome of the request is then unknown
   */
  async inBackground(message: Request, calls: BackgroundCalls): Promise<Reply> {
    const { data, first } = this.#encode([message], 0);
    await this.#sendInBackground(data, calls);
    const [reply] = this.#answers([message], first, 0);
    return reply ?? { request: message, error: undefined, messages: [] };
  }

  #exchange(requests: readonly Request[], acknowledged = requests.length - 1): readonly Reply[] {
    const { data, first } = this.#encode(requests, acknowledged);
    this.#send(data);
    return this.#answers(requests, first, acknowledged);
  }

  /** Returns the requests as one datagram, of which one has a flag; `first` is their first sequence number. */
  #encode(
    requests: readonly Request[],
    flagged: number,
    flag: number = MessageFlag.ACK,
  ): { readonly data: Uint8Array<ArrayBuffer>; readonly first: number } {
    let size = 0;
    for (const { body } of requests) size += body.length + 20;
    const writer = new Writer(size);
    const first = this.#nextSequence();
    let index = 0;
    for (const message of requests) {
      const sequence = index === 0 ? first : this.#nextSequence();
      const isFlagged = index === flagged && message.isAnswered !== true;
      encodeRequest(writer, message, isFlagged ? flag : 0, sequence);
      index++;
    }
    return { data: writer.view(), first };
  }

  #answers(requests: readonly Request[], first: number, acknowledged: number): readonly Reply[] {
    const isFramed = acknowledged !== requests.length - 1;
    const replies = requests.map((message) => ({
      request: message,
      error: undefined as NetlinkError | undefined,
      messages: [] as ReceivedMessage[],
    }));
    /** @returns whether that was the last answer */
    const take = (message: ReceivedMessage): boolean => {
      const index = (message.sequence - first) >>> 0;
      const reply = replies[index];
      if (reply === undefined) return false;
      if (message.type === ControlType.ERROR) {
        reply.error = outcomeOf(reply.request, message.flags, message.body);
        // When a batch fails as a whole, the kernel answers only its first request.
        return index === acknowledged || (isFramed && index === 0);
      }
      if (message.type <= ControlType.OVERRUN) return false;
      reply.messages.push({ ...message, body: message.body.slice() });
      return index === acknowledged && reply.request.isAnswered === true;
    };
    for (let isDone = requests.length === 0; !isDone;) {
      const length = this.#receive();
      if (isFramed && length === -Errno.ENOBUFS) {
        this.#drain(take);
        // The single answer to a successful batch cannot overrun the buffer.
        if (replies.every(({ error }) => error === undefined)) check(length, "netlink receive");
        break;
      }
      for (const message of this.#received(length)) isDone = take(message) || isDone;
    }
    return replies;
  }

  /**
   * Carries out one request.
   *
   * @returns the messages of the kernel's answer (one for a GET, none for most others)
   * @throws NetlinkError when the kernel refuses it
   */
  request(message: Request): readonly ReceivedMessage[] {
    const [reply] = this.batch([message]);
    if (reply?.error !== undefined) throw reply.error;
    return reply?.messages ?? [];
  }

  /**
   * Lists objects. When the kernel marks the dump as interrupted (NLM_F_DUMP_INTR), it starts again.
   *
   * @throws NetlinkError when the kernel refuses, or every attempt was interrupted
   */
  dump(message: Request): readonly ReceivedMessage[] {
    return this.collect(
      message,
      (): ReceivedMessage[] => [],
      (all, received) => all.push({ ...received, body: received.body.slice() }),
    );
  }

  /**
   * Lists objects one by one, so that the memory used does not grow with their number. When the kernel marks the list
   * as interrupted, it starts again with an empty collection.
   *
   * @param empty returns the collection of an attempt, without any object
   * @param add receives each message, whose body is valid only during the call. It must not use this socket.
   * @returns the collection of the attempt that nothing interrupted
   * @throws NetlinkError when the kernel refuses, or every attempt was interrupted
   */
  collect<C>(message: Request, empty: () => C, add: (collected: C, received: ReceivedMessage) => void): C {
    for (let attempt = 0; attempt < DUMP_ATTEMPTS; attempt++) {
      const collected = empty();
      const list = this.datagrams(message);
      try {
        let step = list.next();
        for (; step.done !== true; step = list.next()) for (const received of step.value) add(collected, received);
        if (step.value) return collected;
      } finally {
        list.return(false);
      }
    }
    throw new NetlinkError(message.operation, Errno.EINTR, `changed during each of ${DUMP_ATTEMPTS} dumps`);
  }

  close(): void {
    this.#syscalls.close(this.#fd);
  }

  /**
   * Lists objects datagram by datagram, so that other work can be done in between.
   *
   * The bodies are valid until the next step. Nothing else may use the socket before the list has ended. An abandoned
   * list (by its `return`) is read to its end, without which the socket could list nothing else.
   *
   * @returns false when the kernel marks the list as interrupted: objects may be missing or listed twice
   * @throws NetlinkError when the kernel refuses it
   */
  *datagrams(message: Request): Generator<readonly ReceivedMessage[], boolean, void> {
    const { data, first } = this.#encode([message], 0, MessageFlag.DUMP);
    this.#send(data);
    return yield* this.#listed(message, first);
  }

  /**
   * Lists like {@link datagrams}, but the event loop goes on while the kernel looks for the first objects. Nothing else
   * may use the socket before the list's end.
   *
   * @throws SyscallError (by the promise) when sending fails
   */
  async datagramsInBackground(
    message: Request,
    calls: BackgroundCalls,
  ): Promise<Generator<readonly ReceivedMessage[], boolean, void>> {
    const { data, first } = this.#encode([message], 0, MessageFlag.DUMP);
    await this.#sendInBackground(data, calls);
    return this.#listed(message, first);
  }

  *#listed(message: Request, sequence: number): Generator<readonly ReceivedMessage[], boolean, void> {
    let interrupted = false;
    for (let isDone = false; !isDone;) {
      const objects: ReceivedMessage[] = [];
      for (const received of this.#received(this.#receive())) {
        if (received.sequence !== sequence) continue;
        if ((received.flags & MessageFlag.DUMP_INTR) !== 0) interrupted = true;
        if (received.type === ControlType.ERROR) {
          const error = outcomeOf(message, received.flags, received.body);
          if (error !== undefined) throw error;
        } else if (received.type === ControlType.DONE) {
          const error = dumpOutcome(message, received.body);
          if (error !== undefined) throw error;
          isDone = true;
          break;
        } else if (received.type > ControlType.OVERRUN) {
          objects.push(received);
        }
      }
      if (objects.length === 0) continue;
      let isAbandoned = true;
      try {
        yield objects;
        isAbandoned = false;
      } finally {
        if (isAbandoned && !isDone) this.#hearOut(message, sequence);
      }
    }
    return !interrupted;
  }

  /** Reads an abandoned list to its end. Its errors are ignored: the caller abandons it for a reason of its own. */
  #hearOut(message: Request, sequence: number): void {
    try {
      for (const _ of this.#listed(message, sequence));
    } catch (error) {
      // The listed set has gone, or the kernel lacks memory for the rest, as the next list will report.
      if (!(error instanceof DrawbridgeError)) throw error;
    }
  }

  #send(data: Uint8Array): void {
    let sent: number;
    do sent = this.#syscalls.send(this.#fd, data, 0);
    while (sent === -Errno.EINTR);
    check(sent, "netlink send");
  }

  /** The kernel handles a request before send returns, so the answer is available when this resolves. */
  async #sendInBackground(data: Uint8Array<ArrayBuffer>, calls: BackgroundCalls): Promise<void> {
    let sent: number;
    do sent = await calls.sendInBackground(this.#fd, data);
    while (sent === -Errno.EINTR);
    check(sent, "netlink send");
  }

  /** Takes all queued messages. The kernel has answered a batch when send returns, so nothing follows. */
  #drain(take: (message: ReceivedMessage) => unknown): void {
    for (;;) {
      const length = this.#receive(MSG_DONTWAIT);
      if (length === -Errno.EAGAIN) return;
      for (const message of this.#received(length)) take(message);
    }
  }

  #nextSequence(): number {
    this.#sequence = (this.#sequence + 1) >>> 0;
    return this.#sequence;
  }

  /** Fills the buffer with the next datagram. @returns its length, or a negative errno */
  #receive(flags = 0): number {
    let length: number;
    do length = this.#syscalls.receiveFrom(this.#fd, this.#buffer, MSG_TRUNC | flags, this.#sender);
    while (length === -Errno.EINTR);
    return length;
  }

  /** Returns the messages of the datagram in the buffer; none when another process sent it. */
  #received(length: number): Iterable<ReceivedMessage> {
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
    // struct sockaddr_nl: family, pad, port id. The kernel's port id is 0, that of a process is not.
    const portId = new DataView(this.#sender.buffer).getUint32(4, littleEndian);
    return portId === 0 ? decodeMessages(this.#buffer.subarray(0, length)) : [];
  }
}

/** Runs an action with a socket, and closes it afterwards. */
export function withSocket<S extends { close(): void }, T>(socket: S, action: (socket: S) => T): T {
  try {
    return action(socket);
  } finally {
    socket.close();
  }
}

/** Returns a hint at the kernel options that provide a missing protocol. */
function wayOut(protocol: number, errno: number): string {
  if (protocol !== NETLINK_NETFILTER || errno !== Errno.EPROTONOSUPPORT) return "";
  return " of nftables: the kernel has it with CONFIG_NF_TABLES and CONFIG_NF_CONNTRACK; try modprobe nf_tables nf_conntrack";
}
