import { type Address, addressFromBytes, type Family } from "../ip/address.ts";
import { type IpProtocol, protocolFromNumber } from "../ip/protocol.ts";

/** The source and destination in a packet's headers. */
export interface IpHeader {
  readonly family: Family;
  readonly source: Address;
  readonly destination: Address;
  /** The protocol above IP and its extension headers; undefined when the bytes end before it. */
  readonly protocol: IpProtocol | undefined;
  /** undefined when the protocol has none, when the bytes end before it, or in a later fragment. */
  readonly sourcePort: number | undefined;
  readonly destinationPort: number | undefined;
  /** The number of bytes before the header of the protocol; more than the packet has if it ends before that. */
  readonly upperOffset: number;
  /** Whether this is a fragment other than the first, which has the transport header. */
  readonly isLaterFragment: boolean;
}

const IPV4_HEADER = 20;
const IPV6_HEADER = 40;
const FRAGMENT_OFFSET = 0x1fff;
/** IANA numbers of the IPv6 extension headers that are skipped; their formats: RFC 8200 section 4, RFC 4302. */
const FRAGMENT = 44;
const AUTHENTICATION = 51;
/** Hop-by-hop options, routing, destination options, mobility, HIP, shim6: next header, then length in 8-byte units. */
const EXTENSIONS: ReadonlySet<number> = new Set([0, 43, 60, 135, 139, 140]);
/** The protocols that begin with a source and a destination port: TCP, UDP, DCCP, SCTP, UDP-Lite. */
const WITH_PORTS: ReadonlySet<number> = new Set([6, 17, 33, 132, 136]);

/** The end of the IP headers; the protocol is undefined when the bytes end before it. */
interface Upper {
  readonly protocol: number | undefined;
  readonly offset: number;
  readonly isLaterFragment: boolean;
}

/**
 * Reads the headers of a packet, which may be truncated anywhere and contain anything.
 *
 * @returns undefined when it is neither IPv4 nor IPv6, or too short for two addresses
 */
export function parseIpHeader(packet: Uint8Array): IpHeader | undefined {
  const version = (packet[0] ?? 0) >>> 4;
  const view = new DataView(packet.buffer, packet.byteOffset, packet.byteLength);
  if (version === 4 && packet.length >= IPV4_HEADER) {
    const upper = aboveIpv4(view);
    return upper === undefined
      ? undefined
      : headerFrom(view, 4, [packet.subarray(12, 16), packet.subarray(16, 20)], upper);
  }
  if (version === 6 && packet.length >= IPV6_HEADER) {
    return headerFrom(view, 6, [packet.subarray(8, 24), packet.subarray(24, 40)], aboveIpv6(view));
  }
  return undefined;
}

function aboveIpv4(view: DataView): Upper | undefined {
  const offset = (view.getUint8(0) & 0xf) * 4;
  if (offset < IPV4_HEADER) return undefined;
  const isLaterFragment = (view.getUint16(6) & FRAGMENT_OFFSET) !== 0;
  return { protocol: view.getUint8(9), offset, isLaterFragment };
}

/** Each extension header has at least 8 bytes, so the loop ends with the bytes. */
function aboveIpv6(view: DataView): Upper {
  let protocol = view.getUint8(6);
  let offset = IPV6_HEADER;
  for (;;) {
    const isFragment = protocol === FRAGMENT;
    if (!isExtension(protocol)) return { protocol, offset, isLaterFragment: false };
    if (offset + 8 > view.byteLength) return { protocol: undefined, offset, isLaterFragment: false };
    const next = view.getUint8(offset);
    // The low three bits are not part of the offset (RFC 8200 section 4.5).
    if (isFragment && view.getUint16(offset + 2) >>> 3 !== 0) {
      // A piece of the payload follows, whatever the next header says.
      return { protocol: isExtension(next) ? undefined : next, offset, isLaterFragment: true };
    }
    const length = view.getUint8(offset + 1);
    if (isFragment) offset += 8;
    else offset += protocol === AUTHENTICATION ? (length + 2) * 4 : (length + 1) * 8;
    protocol = next;
  }
}

function isExtension(protocol: number): boolean {
  return protocol === FRAGMENT || protocol === AUTHENTICATION || EXTENSIONS.has(protocol);
}

function headerFrom(
  view: DataView,
  family: Family,
  [source, destination]: readonly [Uint8Array, Uint8Array],
  { protocol, offset, isLaterFragment }: Upper,
): IpHeader {
  const isThere = !isLaterFragment && offset + 4 <= view.byteLength;
  const hasPorts = protocol !== undefined && WITH_PORTS.has(protocol) && isThere;
  return {
    family,
    source: addressFromBytes(source),
    destination: addressFromBytes(destination),
    protocol: protocol === undefined ? undefined : protocolFromNumber(protocol),
    sourcePort: hasPorts ? view.getUint16(offset) : undefined,
    destinationPort: hasPorts ? view.getUint16(offset + 2) : undefined,
    upperOffset: offset,
    isLaterFragment,
  };
}
