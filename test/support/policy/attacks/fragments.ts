import { addressToBytes, familyOf } from "../../../../kernel/ip/address.ts";
import { EtherType, type Frame, type IpPacket } from "../../../lab/probe/frame.ts";
import { internetChecksum } from "../../../lab/probe/raw_packet.ts";

const IPV6_HEADER = 40;
const IPV6_FRAGMENT = 44;
const DESTINATION_OPTIONS = 60;
const MORE_FRAGMENTS = 0x2000;
const HOP_LIMIT = 64;

/** A fragment of a packet's payload; `offset` in bytes, a multiple of eight. */
export interface Fragment {
  readonly offset: number;
  readonly isLast: boolean;
  readonly payload: Uint8Array;
  /** The next header that an IPv6 fragment's header names; the packet's protocol when absent. */
  readonly next?: number;
}

/** Encodes one fragment of a packet as the payload of a frame (RFC 791 section 3.1, RFC 8200 section 4.5). */
export function encodeFragment(
  { from, to, protocol }: Pick<IpPacket, "from" | "to" | "protocol">,
  id: number,
  { offset, isLast, payload, next = protocol }: Fragment,
): Pick<Frame, "type" | "payload"> {
  const addresses = [...addressToBytes(from), ...addressToBytes(to)];
  if (familyOf(from) === 4) {
    const place = offset / 8 + (isLast ? 0 : MORE_FRAGMENTS);
    const sizes = [...be16(20 + payload.length), ...be16(id), ...be16(place)];
    const header = Uint8Array.of(0x45, 0, ...sizes, HOP_LIMIT, protocol, 0, 0, ...addresses);
    header.set(be16(internetChecksum(header)), 10);
    return { type: EtherType.IPV4, payload: Uint8Array.of(...header, ...payload) };
  }
  const extension = [next, 0, ...be16(offset + (isLast ? 0 : 1)), 0, 0, ...be16(id)];
  const header = [0x60, 0, 0, 0, ...be16(8 + payload.length), IPV6_FRAGMENT, HOP_LIMIT, ...addresses];
  return { type: EtherType.IPV6, payload: Uint8Array.of(...header, ...extension, ...payload) };
}

/**
 * Encodes an IPv6 fragment with destination options before the fragment's header, which only a reader of the whole
 * header chain finds.
 */
export function encodeFragmentAfterOptions(
  packet: Pick<IpPacket, "from" | "to" | "protocol">,
  id: number,
  fragment: Fragment,
): Pick<Frame, "type" | "payload"> {
  const { type, payload } = encodeFragment(packet, id, fragment);
  const header = payload.slice(0, IPV6_HEADER);
  const view = new DataView(header.buffer);
  view.setUint16(4, view.getUint16(4) + 8);
  view.setUint8(6, DESTINATION_OPTIONS);
  // One option of four zero bytes (PadN) fills the header.
  const options = [IPV6_FRAGMENT, 0, 1, 4, 0, 0, 0, 0];
  return { type, payload: Uint8Array.of(...header, ...options, ...payload.subarray(IPV6_HEADER)) };
}

/** Returns a packet in two fragments, the first with `size` bytes of payload. */
export function inTwo(packet: IpPacket, id: number, size: number): readonly Pick<Frame, "type" | "payload">[] {
  return [
    encodeFragment(packet, id, { offset: 0, isLast: false, payload: packet.payload.subarray(0, size) }),
    encodeFragment(packet, id, { offset: size, isLast: true, payload: packet.payload.subarray(size) }),
  ];
}

function be16(value: number): readonly [number, number] {
  return [(value >> 8) & 0xff, value & 0xff];
}
