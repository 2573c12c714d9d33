import { setImmediate as turn } from "node:timers/promises";
import { type Address, addressToBytes, familyOf } from "../../../kernel/ip/address.ts";
import type { MacAddress } from "../../../kernel/ip/mac.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import { encodeFrame, encodeIp, encodeTcp, encodeUdp, TcpFlag } from "../../lab/probe/frame.ts";
import { FrameSocket } from "../../lab/probe/frame_socket.ts";

/** A packet of a flood, without the fields that differ between packets. */
export interface FloodPacket {
  readonly from: Address;
  readonly to: Address;
  /** Flags and numbers of a TCP segment; a packet without them is a UDP datagram. */
  readonly tcp?: { readonly flags: number; readonly sequence: number; readonly acknowledged: number };
}

/** The fields in which packets differ. */
export interface FloodTurn {
  readonly sourcePort: number;
  readonly destinationPort: number;
  /** A source of the same family that replaces the packet's. */
  readonly from?: Address;
}

/** The number of bytes of a frame before its packet. */
const ETHERNET = 14;
/** The number of packets between two turns of the event loop. */
const SLICE = 512;

/**
 * Sends many packets that differ in their ports, as raw frames of one link: some hundred thousand in a few seconds.
 *
 * Each has a correct checksum, since conntrack classifies a packet with a wrong one as invalid.
 */
export class Flood implements Disposable {
  readonly #socket: FrameSocket;
  readonly #macs: { readonly to: MacAddress; readonly from: MacAddress };

  /** @param to the MAC address of the host that routes the packets; @throws SyscallError without the privilege */
  constructor(namespace: LabNamespace, link: string, to: MacAddress) {
    this.#socket = new FrameSocket(namespace, link);
    const { mac } = namespace.link(link);
    if (mac === undefined) throw new Error(`${namespace.name}: ${link} has no MAC address`);
    this.#macs = { to, from: mac };
  }

  /** Sends one packet for each turn, with turns of the event loop in between. */
  async send(packet: FloodPacket, turns: Iterable<FloodTurn>): Promise<void> {
    const template = templateOf(packet);
    const frame = encodeFrame({ ...this.#macs, ...encodeIp(template.packet) });
    const view = new DataView(frame.buffer, frame.byteOffset, frame.byteLength);
    const transport = frame.length - template.packet.payload.length;
    const checksumAt = transport + template.checksumOffset;
    const base = ~view.getUint16(checksumAt) & 0xffff;
    const isIpv4 = familyOf(packet.from) === 4;
    const [addressAt, addressLength] = isIpv4 ? [ETHERNET + 12, 4] : [ETHERNET + 8, 16];
    // The checksum of IPv4's header includes the source.
    const headerAt = ETHERNET + 10;
    const withoutSource = 16 * 0xffff - sumOf(frame.subarray(addressAt, addressAt + addressLength));
    const headerBase = ~view.getUint16(headerAt) & 0xffff;
    let left = SLICE;
    for (const { sourcePort, destinationPort, from } of turns) {
      let sum = base + sourcePort + destinationPort;
      view.setUint16(transport, sourcePort);
      view.setUint16(transport + 2, destinationPort);
      if (from !== undefined) {
        const bytes = addressToBytes(from);
        frame.set(bytes, addressAt);
        const difference = sumOf(bytes) + withoutSource;
        sum += difference;
        if (isIpv4) view.setUint16(headerAt, ~folded(headerBase + difference) & 0xffff);
      }
      view.setUint16(checksumAt, ~folded(sum) & 0xffff || 0xffff);
      this.#socket.send(frame);
      if (--left > 0) continue;
      left = SLICE;
      await turn();
    }
  }

  [Symbol.dispose](): void {
    this.#socket.close();
  }
}

/** The segments by which two ends that answer each other open a connection. */
export const HANDSHAKE = {
  syn: { flags: TcpFlag.SYN, sequence: 1000, acknowledged: 0 },
  synAck: { flags: TcpFlag.SYN | TcpFlag.ACK, sequence: 5000, acknowledged: 1001 },
  ack: { flags: TcpFlag.ACK, sequence: 1001, acknowledged: 5001 },
} as const;

function templateOf({ from, to, tcp }: FloodPacket): {
  readonly packet: ReturnType<typeof encodeUdp>;
  readonly checksumOffset: number;
} {
  if (tcp === undefined) {
    const packet = encodeUdp(from, to, 0, new Uint8Array());
    return { packet, checksumOffset: 6 };
  }
  const packet = encodeTcp(from, to, { source: 0, destination: 0 }, tcp.flags);
  const view = new DataView(packet.payload.buffer, packet.payload.byteOffset, packet.payload.byteLength);
  // encodeTcp sets both numbers to 1.
  const before = 2;
  view.setUint32(4, tcp.sequence);
  view.setUint32(8, tcp.acknowledged);
  const sum = (~view.getUint16(16) & 0xffff) - before + 0xffff + sumOf(packet.payload.subarray(4, 12));
  view.setUint16(16, ~folded(sum) & 0xffff);
  return { packet, checksumOffset: 16 };
}

function sumOf(bytes: Uint8Array): number {
  let sum = 0;
  for (let i = 0; i < bytes.length; i += 2) sum += ((bytes[i] ?? 0) << 8) | (bytes[i + 1] ?? 0);
  return sum;
}

function folded(sum: number): number {
  let left = sum;
  while (left > 0xffff) left = (left & 0xffff) + (left >>> 16);
  return left;
}
