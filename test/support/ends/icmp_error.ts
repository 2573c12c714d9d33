import { type Address, type Family, familyOf } from "../../../kernel/ip/address.ts";
import { Errno } from "../../../kernel/syscall/errno.ts";
import { encodeIcmpv6, encodeIp, type IpPacket } from "../../lab/probe/frame.ts";
import { internetChecksum } from "../../lab/probe/raw_packet.ts";

const ICMP = 1;
const EPROTO = 71;

/** A kind of ICMP error, and the errno by which it reaches a program (icmp_err_convert, icmpv6_err_convert). */
export interface ErrorKind {
  readonly what: string;
  readonly type: number;
  readonly code: number;
  readonly errno: number;
  /** The MTU that the error names, for errors that name one. */
  readonly mtu?: number;
}

/** "Packet too big", with the smallest MTU that the kernel accepts (min_pmtu, IPV6_MIN_MTU). */
export const TOO_BIG: Readonly<Record<Family, ErrorKind & { readonly mtu: number }>> = {
  4: { what: "packet too big", type: 3, code: 4, errno: Errno.EMSGSIZE, mtu: 552 },
  6: { what: "packet too big", type: 2, code: 0, errno: Errno.EMSGSIZE, mtu: 1280 },
};

/** All errors that end a query. */
export const ERRORS: Readonly<Record<Family, readonly ErrorKind[]>> = {
  4: [
    { what: "port unreachable", type: 3, code: 3, errno: Errno.ECONNREFUSED },
    { what: "host unreachable", type: 3, code: 1, errno: Errno.EHOSTUNREACH },
    { what: "time exceeded", type: 11, code: 0, errno: Errno.EHOSTUNREACH },
    { what: "parameter problem", type: 12, code: 0, errno: EPROTO },
  ],
  6: [
    { what: "port unreachable", type: 1, code: 4, errno: Errno.ECONNREFUSED },
    { what: "address unreachable", type: 1, code: 3, errno: Errno.EHOSTUNREACH },
    { what: "time exceeded", type: 3, code: 0, errno: Errno.EHOSTUNREACH },
    { what: "parameter problem", type: 4, code: 0, errno: EPROTO },
    { what: "an error of no known type", type: 100, code: 0, errno: EPROTO },
  ],
};

/** Returns an ICMP error about a packet: its header and the first bytes of its payload (RFC 792, RFC 4443 section 3). */
export function encodeError(from: Address, to: Address, kind: ErrorKind, about: IpPacket): IpPacket {
  const { type, code, mtu = 0 } = kind;
  const quoted = encodeIp(about).payload.subarray(0, 128);
  if (familyOf(from) === 6) {
    const body = [0, 0, mtu >> 8, mtu & 0xff, ...quoted];
    return withCode(encodeIcmpv6(from, to, type, body), code);
  }
  const message = Uint8Array.of(type, code, 0, 0, 0, 0, mtu >> 8, mtu & 0xff, ...quoted);
  new DataView(message.buffer).setUint16(2, internetChecksum(message));
  return { from, to, protocol: ICMP, payload: message };
}

/** Sets the code of an ICMPv6 message and updates its checksum (RFC 1624). */
function withCode(packet: IpPacket, code: number): IpPacket {
  const payload = Uint8Array.from(packet.payload);
  payload[1] = code;
  const view = new DataView(payload.buffer);
  const sum = (~view.getUint16(2) & 0xffff) + code;
  view.setUint16(2, ~((sum & 0xffff) + (sum >>> 16)) & 0xffff);
  return { ...packet, payload };
}
