import { type Address, type Family, familyOf } from "../ip/address.ts";
import type { IpProtocol } from "../ip/protocol.ts";
import type { AttributeValues } from "../netlink/attribute.ts";
import type { ConntrackEntry, entryLayout } from "./entry.ts";
import { addressValues, type ConntrackTuple, portValues, type TupleValues } from "./tuple.ts";

/** Required bits: each bit set in `mask` must equal the bit of `value`. */
export interface Masked<T extends number | bigint> {
  readonly value: T;
  readonly mask: T;
}

/** A filter for entries: an entry matches when it agrees with every given field. */
export interface ConntrackFilter {
  readonly family?: Family;
  readonly protocol?: IpProtocol;
  readonly original?: Partial<Pick<ConntrackTuple, "source" | "destinationPort">>;
  readonly reply?: Partial<Pick<ConntrackTuple, "source">>;
  /** Bits of `ConntrackStatus` (entry.ts). */
  readonly status?: Masked<number>;
}

/** Tells whether an entry matches a filter. */
export function matchesFilter(filter: ConntrackFilter, entry: ConntrackEntry): boolean {
  return (
    isAny(filter.family, entry.family) &&
    isAny(filter.protocol, entry.original.protocol) &&
    isAny(filter.original?.source, entry.original.source) &&
    isAny(filter.original?.destinationPort, entry.original.destinationPort) &&
    isAny(filter.reply?.source, entry.reply.source) &&
    hasBits(filter.status, entry.status)
  );
}

function isAny<T>(wanted: T | undefined, actual: T): boolean {
  return wanted === undefined || wanted === actual;
}

function hasBits(wanted: Masked<number> | undefined, actual: number): boolean {
  return wanted === undefined || ((actual ^ wanted.value) & wanted.mask) === 0;
}

/** CTA_FILTER_F_* (net/netfilter/nf_internals.h). */
const FilterFlag = { SOURCE: 0x1, PROTOCOL: 0x8, DESTINATION_PORT: 0x20 } as const;

type EntryAttributes = AttributeValues<(typeof entryLayout)["attributes"]>;

/**
 * Returns the part of a filter that the kernel can apply, as a dump's family and attributes.
 *
 * Each kernel applies what it knows and ignores the rest (tuples since 5.8, status later), so
 * its list may hold more than the filter matches: {@link matchesFilter} decides.
 */
export function kernelFilter({ family, protocol, original, reply, status }: ConntrackFilter): {
  readonly family: Family | undefined;
  readonly attributes: EntryAttributes;
} {
  const source = original?.source ?? reply?.source;
  const known = family ?? (source === undefined ? undefined : familyOf(source));
  const first = known === undefined ? UNFILTERED : kernelTuple(original?.source, protocol, original?.destinationPort);
  // The protocol is the same in both directions, so one of them is enough.
  const second = kernelTuple(reply?.source);
  return {
    family: known,
    attributes: {
      ...(first.flags === 0 ? {} : { original: first.values }),
      ...(second.flags === 0 ? {} : { reply: second.values }),
      ...(first.flags === 0 && second.flags === 0
        ? {}
        : { filter: { originalFlags: first.flags, replyFlags: second.flags } }),
      ...(status === undefined ? {} : { status: status.value, statusMask: status.mask }),
    },
  };
}

const UNFILTERED = { values: {}, flags: 0 } as const;

/**
 * Omits IPv6 addresses: for them the kernel lists only what does not match (ctnetlink_filter_match_tuple, to 6.18). It
 * refuses ports without their protocol.
 */
function kernelTuple(
  source: Address | undefined,
  protocol?: IpProtocol,
  destinationPort?: number,
): { readonly values: TupleValues; readonly flags: number } {
  const compared = source !== undefined && familyOf(source) === 4 ? source : undefined;
  const port = protocol === undefined ? undefined : destinationPort;
  return {
    values: {
      ...(compared === undefined ? {} : { ip: addressValues(familyOf(compared), compared, undefined) }),
      ...(protocol === undefined ? {} : { protocol: portValues(protocol, undefined, port) }),
    },
    flags:
      (compared === undefined ? 0 : FilterFlag.SOURCE) |
      (protocol === undefined ? 0 : FilterFlag.PROTOCOL) |
      (port === undefined ? 0 : FilterFlag.DESTINATION_PORT),
  };
}
