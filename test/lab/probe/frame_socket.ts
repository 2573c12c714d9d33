import { check } from "../../../kernel/syscall/syscalls.ts";
import { Errno } from "../../../kernel/syscall/errno.ts";
import type { LabNamespace } from "../namespace.ts";

const AF_PACKET = 17;
const SOCK_RAW = 3;
const SOCK_NONBLOCK = 0o4000;
const SOCK_CLOEXEC = 0o2000000;
const ETH_P_ALL = 3;
const SOCKADDR_LL_SIZE = 20;
const PACKET_TYPE_OFFSET = 10;
const PACKET_OUTGOING = 4;
const SOL_SOCKET = 1;
const SO_RCVBUFFORCE = 33;
const SOL_PACKET = 263;
const PACKET_VNET_HDR = 15;
const RECEIVE_BUFFER = 4 * 1024 * 1024;

const buffer = new Uint8Array(65_536);
const source = new Uint8Array(SOCKADDR_LL_SIZE);

/**
 * A socket for the frames of one link as they are on the wire: it sends what a program with CAP_NET_RAW can send, and
 * receives what arrives.
 *
 * The kernel passes a received frame to a packet socket without its outermost VLAN tag.
 */
export class FrameSocket implements Disposable {
  readonly #fd: number;
  readonly #namespace: LabNamespace;

  /** @throws SyscallError without the privilege */
  constructor(namespace: LabNamespace, link: string) {
    const { calls } = namespace;
    this.#namespace = namespace;
    const all = bigEndianNumber(ETH_P_ALL);
    this.#fd = namespace.inside(() =>
      check(calls.socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, all), `${namespace.name}: packet socket`),
    );
    calls.setsockopt(this.#fd, SOL_SOCKET, SO_RCVBUFFORCE, new Uint8Array(Int32Array.of(RECEIVE_BUFFER).buffer));
    const address = new Uint8Array(SOCKADDR_LL_SIZE);
    new Uint16Array(address.buffer, 0, 2).set([AF_PACKET, all]);
    new Int32Array(address.buffer, 4, 1)[0] = namespace.link(link).index;
    check(calls.bind(this.#fd, address), `${namespace.name}: packet socket on ${link}`);
    // Until it is bound, the socket receives the frames of every link.
    this.received();
  }

  /**
   * From now on each sent frame has a header in front, which tells the kernel that it still has to segment the frame
   * (struct virtio_net_hdr; packet(7), PACKET_VNET_HDR).
   */
  setUncut(): void {
    const isOn = new Uint8Array(Int32Array.of(1).buffer);
    check(this.#namespace.calls.setsockopt(this.#fd, SOL_PACKET, PACKET_VNET_HDR, isOn), "PACKET_VNET_HDR");
  }

  /** @throws SyscallError when the link does not take the frame */
  send(frame: Uint8Array): void {
    check(this.#namespace.calls.send(this.#fd, frame, 0), `${this.#namespace.name}: send a frame`);
  }

  /** Returns the frames that have arrived since the last call, without those that were sent. */
  received(): readonly Uint8Array[] {
    const frames: Uint8Array[] = [];
    for (;;) {
      const length = this.#namespace.calls.receiveFrom(this.#fd, buffer, 0, source);
      if (length === -Errno.EAGAIN) return frames;
      check(length, `${this.#namespace.name}: receive a frame`);
      if (source[PACKET_TYPE_OFFSET] !== PACKET_OUTGOING) frames.push(buffer.slice(0, length));
    }
  }

  close(): void {
    this.#namespace.calls.close(this.#fd);
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

/** Returns a 16-bit number that is in network byte order in memory. */
function bigEndianNumber(value: number): number {
  return new Uint16Array(Uint8Array.of(value >> 8, value & 0xff).buffer)[0] ?? 0;
}
