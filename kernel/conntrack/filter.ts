import { type Address, type Family, familyOf } from "../ip/address.ts";
import { type IpProtocol, isTransport } from "../ip/protocol.ts";
import type { AttributeValues } from "../netlink/attribute.ts";
import type { ConntrackEntry, entryLayout } from "./entry.ts";
import { addressValues, type ConntrackTuple, portValues, type TupleValues } from "./tuple.ts";

/** Required bits: each bit set in `mask` must equal the bit of `value`. */
export interface Masked<T extends number | bigint> {
  readonly value: T;
  readonly mask: T;
}

/** The fields that the tuple of one direction must have. */
export type TupleFilter = Partial<Pick<ConntrackTuple, "source" | "destination" | "sourcePort" | "destinationPort">>;

/** A filter for entries: an entry matches when it agrees with every given field. */
export interface ConntrackFilter {
  readonly family?: Family;
  readonly protocol?: IpProtocol;
  readonly original?: TupleFilter;
  readonly reply?: TupleFilter;
  /** Bits of `ConntrackStatus` (entry.ts). */
  readonly status?: Masked<number>;
}

/** Tells whether an entry matches a filter. */
export function matchesFilter(filter: ConntrackFilter, entry: ConntrackEntry): boolean {
  return (
    isAny(filter.family, entry.family) &&
    isAny(filter.protocol, entry.original.protocol) &&
    matchesTuple(filter.original, entry.original) &&
    matchesTuple(filter.reply, entry.reply) &&
    hasBits(filter.status, entry.status)
  );
}

function isAny<T>(wanted: T | undefined, actual: T): boolean {
  return wanted === undefined || wanted === actual;
}

function hasBits(wanted: Masked<number> | undefined, actual: number): boolean {
  return wanted === undefined || ((actual ^ wanted.value) & wanted.mask) === 0;
}

function matchesTuple(wanted: TupleFilter | undefined, tuple: ConntrackTuple): boolean {
  return (
    wanted === undefined ||
    (isAny(wanted.source, tuple.source) &&
      isAny(wanted.destination, tuple.destination) &&
      isAny(wanted.sourcePort, tuple.sourcePort) &&
      isAny(wanted.destinationPort, tuple.destinationPort))
  );
}

/** CTA_FILTER_F_* (net/netfilter/nf_internals.h). */
const FilterFlag = { SOURCE: 0x1, DESTINATION: 0x2, PROTOCOL: 0x8, SOURCE_PORT: 0x10, DESTINATION_PORT: 0x20 } as const;

type EntryAttributes = AttributeValues<(typeof entryLayout)["attributes"]>;

/**
 * Returns the part of a filter that the kernel can apply, as a dump's family and attributes.
 *
 * Each kernel applies what it knows and ignores the rest (tuples since 5.8, status later), so
 * its list may hold more than the filter matches: {@link matchesFilter} decides.
 */
export function kernelFilter(filter: ConntrackFilter): {
  readonly family: Family | undefined;
  readonly attributes: EntryAttributes;
} {
  const family = filter.family ?? familyOfAddresses(filter);
  const original = family === undefined ? undefined : kernelTuple(family, filter.protocol, filter.original);
  // The protocol is the same in both directions, so one of them is enough.
  const reply = family === undefined ? undefined : kernelTuple(family, portProtocol(filter), filter.reply);
  return {
    family,
    attributes: {
      ...(original === undefined ? {} : { original: original.values }),
      ...(reply === undefined ? {} : { reply: reply.values }),
      ...(original === undefined && reply === undefined
        ? {}
        : { filter: { originalFlags: original?.flags ?? 0, replyFlags: reply?.flags ?? 0 } }),
      ...(filter.status === undefined ? {} : { status: filter.status.value, statusMask: filter.status.mask }),
    },
  };
}

function familyOfAddresses({ original, reply }: ConntrackFilter): Family | undefined {
  const [first] = [original?.source, original?.destination, reply?.source, reply?.destination].filter(
    (address) => address !== undefined,
  );
  return first === undefined ? undefined : familyOf(first);
}

function portProtocol({ protocol, reply }: ConntrackFilter): IpProtocol | undefined {
  return reply?.sourcePort === undefined && reply?.destinationPort === undefined ? undefined : protocol;
}

function kernelTuple(
  family: Family,
  protocol: IpProtocol | undefined,
  wanted: TupleFilter = {},
): { readonly values: TupleValues; readonly flags: number } | undefined {
  const addresses = kernelAddresses(family, wanted);
  const ports = kernelPorts(protocol, wanted);
  const flags = addresses.flags | ports.flags;
  return flags === 0 ? undefined : { values: { ...addresses.values, ...ports.values }, flags };
}

/** Omits IPv6 addresses: for them the kernel lists only what does not match (ctnetlink_filter_match_tuple, to 6.18). */
function kernelAddresses(
  family: Family,
  wanted: TupleFilter,
): { readonly values: TupleValues; readonly flags: number } {
  const comparable = (address: Address | undefined): Address | undefined =>
    family === 4 && address !== undefined && familyOf(address) === 4 ? address : undefined;
  const [source, destination] = [comparable(wanted.source), comparable(wanted.destination)];
  const flags =
    (source === undefined ? 0 : FilterFlag.SOURCE) | (destination === undefined ? 0 : FilterFlag.DESTINATION);
  return { values: flags === 0 ? {} : { ip: addressValues(family, source, destination) }, flags };
}

/** The kernel refuses ports without their protocol. */
function kernelPorts(
  protocol: IpProtocol | undefined,
  wanted: TupleFilter,
): { readonly values: TupleValues; readonly flags: number } {
  if (protocol === undefined) return { values: {}, flags: 0 };
  const [source, destination] = isTransport(protocol) ? [wanted.sourcePort, wanted.destinationPort] : [];
  const flags =
    FilterFlag.PROTOCOL |
    (source === undefined ? 0 : FilterFlag.SOURCE_PORT) |
    (destination === undefined ? 0 : FilterFlag.DESTINATION_PORT);
  return { values: { protocol: portValues(protocol, source, destination) }, flags };
}
