import { DrawbridgeError } from "../error.ts";
import { type Address, type Family, familyOf, formatAddress } from "../ip/address.ts";
import { type IpProtocol, protocolFromNumber, protocolNumber } from "../ip/protocol.ts";
import { address, type AttributeTable, type AttributeValues, be16, nested, u8 } from "../netlink/attribute.ts";

/** The fields that distinguish the queries of one ICMP exchange from those of another. */
export interface IcmpQuery {
  readonly id: number;
  readonly type: number;
  readonly code: number;
}

/** The addresses and ports of the packets in one direction of a flow. */
export interface ConntrackTuple {
  readonly protocol: IpProtocol;
  readonly source: Address;
  readonly destination: Address;
  /** undefined where the protocol has none; for GRE it is the key. */
  readonly sourcePort: number | undefined;
  readonly destinationPort: number | undefined;
  /** Only for ICMP and ICMPv6. */
  readonly icmp: IcmpQuery | undefined;
}

/** CTA_IP_* (include/uapi/linux/netfilter/nfnetlink_conntrack.h, the source of all tables in this folder). */
const ipTable = {
  v4Source: [1, address],
  v4Destination: [2, address],
  v6Source: [3, address],
  v6Destination: [4, address],
} as const satisfies AttributeTable;

/** CTA_PROTO_* */
const protocolTable = {
  number: [1, u8],
  sourcePort: [2, be16],
  destinationPort: [3, be16],
  icmpId: [4, be16],
  icmpType: [5, u8],
  icmpCode: [6, u8],
  icmpv6Id: [7, be16],
  icmpv6Type: [8, u8],
  icmpv6Code: [9, u8],
} as const satisfies AttributeTable;

/** CTA_TUPLE_* */
export const tupleTable = {
  ip: [1, nested(ipTable)],
  protocol: [2, nested(protocolTable)],
  /** A zone of only this direction; a zone of both is an attribute of the entry. */
  zone: [3, be16],
} as const satisfies AttributeTable;

/** The attributes of a tuple. */
export type TupleValues = AttributeValues<typeof tupleTable>;

/** Returns the attributes of the given addresses. */
export function addressValues(
  family: Family,
  source: Address | undefined,
  destination: Address | undefined,
): AttributeValues<typeof ipTable> {
  const isV4 = family === 4;
  return {
    ...(source === undefined ? {} : isV4 ? { v4Source: source } : { v6Source: source }),
    ...(destination === undefined ? {} : isV4 ? { v4Destination: destination } : { v6Destination: destination }),
  };
}

/** Returns the attributes of the given ports. */
export function portValues(
  protocol: IpProtocol,
  sourcePort: number | undefined,
  destinationPort: number | undefined,
): AttributeValues<typeof protocolTable> {
  return {
    number: protocolNumber(protocol),
    ...(sourcePort === undefined ? {} : { sourcePort }),
    ...(destinationPort === undefined ? {} : { destinationPort }),
  };
}

/** Returns the attributes that identify a tuple to the kernel. */
export function tupleValues(tuple: ConntrackTuple): TupleValues {
  return {
    ip: addressValues(familyOf(tuple.source), tuple.source, tuple.destination),
    protocol: {
      ...portValues(tuple.protocol, tuple.sourcePort, tuple.destinationPort),
      ...icmpValues(tuple),
    },
  };
}

function icmpValues({ protocol, icmp }: ConntrackTuple): AttributeValues<typeof protocolTable> {
  if (icmp === undefined) return {};
  const { id, type, code } = icmp;
  return protocol === "icmpv6"
    ? { icmpv6Id: id, icmpv6Type: type, icmpv6Code: code }
    : { icmpId: id, icmpType: type, icmpCode: code };
}

/**
 * Returns the tuple that attributes describe.
 *
 * @throws DrawbridgeError ERR_NETLINK_MALFORMED without addresses of the family, or without a protocol
 */
export function tupleFrom(family: Family, values: TupleValues | undefined): ConntrackTuple {
  const { ip = {}, protocol = {} } = values ?? {};
  const isV4 = family === 4;
  const source = ofFamily(family, isV4 ? ip.v4Source : ip.v6Source, "source");
  const destination = ofFamily(family, isV4 ? ip.v4Destination : ip.v6Destination, "destination");
  if (protocol.number === undefined) throw malformed(family, "no protocol");
  return {
    protocol: protocolFromNumber(protocol.number),
    source,
    destination,
    sourcePort: protocol.sourcePort,
    destinationPort: protocol.destinationPort,
    icmp: icmpFrom(protocol),
  };
}

function ofFamily(family: Family, found: Address | undefined, what: string): Address {
  if (found !== undefined && familyOf(found) === family) return found;
  throw malformed(family, found === undefined ? `no ${what}` : `${what} ${formatAddress(found)} of the other family`);
}

function malformed(family: Family, what: string): DrawbridgeError {
  return new DrawbridgeError(
    "ERR_NETLINK_MALFORMED",
    `conntrack tuple of IPv${family}: ${what}; expected two addresses and a protocol`,
  );
}

function icmpFrom(values: AttributeValues<typeof protocolTable>): IcmpQuery | undefined {
  const id = values.icmpId ?? values.icmpv6Id;
  const type = values.icmpType ?? values.icmpv6Type;
  const code = values.icmpCode ?? values.icmpv6Code;
  return id === undefined || type === undefined || code === undefined ? undefined : { id, type, code };
}

/** Returns the tuple in readable form: `tcp 10.244.1.7:43210 > 10.96.0.1:80`. */
export function formatTuple(tuple: ConntrackTuple): string {
  const end = (host: Address, port: number | undefined): string => {
    if (port === undefined) return formatAddress(host);
    return familyOf(host) === 4 ? `${formatAddress(host)}:${port}` : `[${formatAddress(host)}]:${port}`;
  };
  const protocol = typeof tuple.protocol === "number" ? `protocol ${tuple.protocol}` : tuple.protocol;
  return `${protocol} ${end(tuple.source, tuple.sourcePort)} > ${end(tuple.destination, tuple.destinationPort)}`;
}
