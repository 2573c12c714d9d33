import type { Address } from "../../../kernel/ip/address.ts";
import { parseCidr } from "../../../kernel/ip/cidr.ts";
import { isInRanges, rangeOf, unitedRanges } from "../../../kernel/ip/ranges.ts";
import {
  bothFamilies,
  LINK_LOCAL,
  LOOPBACK,
  MULTICAST,
  RESERVED_IPV4,
  UNSPECIFIED,
} from "../../../kernel/ip/special.ts";
import type { DnsAnswer } from "./dns_answer.ts";

/** An address that an answer gives for the name that was asked for. */
export interface LearnedAddress {
  readonly address: Address;
  /** How long it counts. */
  readonly milliseconds: number;
}

export interface Learned {
  readonly addresses: readonly LearnedAddress[];
  /** Addresses that names outside of the cluster must not have. */
  readonly refused: readonly Address[];
}

/** An answer's own time to live counts within these bounds: clients keep addresses longer, or never ask again. */
const SHORTEST_SECONDS = 60;
const LONGEST_SECONDS = 3600;
/** Resolvers follow fewer aliases. */
const MOST_ALIASES = 16;

/**
 * Addresses that are never those of a public name: private and shared ones (RFC 1918, RFC 4193, RFC 6598), of this host
 * or link, of groups, and IPv6 addresses that are IPv4 ones (RFC 4291 section 2.5.5).
 */
const NOT_PUBLIC = unitedRanges(
  [
    ...bothFamilies(UNSPECIFIED, LOOPBACK, LINK_LOCAL, MULTICAST),
    RESERVED_IPV4,
    ...["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10"].map((text) => parseCidr(text)),
    ...["fc00::/7", "::/96", "::ffff:0:0/96"].map((text) => parseCidr(text)),
  ].map(rangeOf),
);

/**
 * Returns the addresses that an answer gives for the name in its question, also by aliases. Everything else in the
 * answer counts for nothing.
 *
 * @param isOfCluster whether an address is a pod's or a node's
 */
export function learn({ name, records }: DnsAnswer, isOfCluster: (address: Address) => boolean): Learned {
  const seconds = namesLeadingOn({ name, records });
  const addresses: LearnedAddress[] = [];
  const refused: Address[] = [];
  for (const { name: owner, timeToLive, leadsTo } of records) {
    const before = seconds.get(owner);
    if (before === undefined || !("address" in leadsTo)) continue;
    const { address } = leadsTo;
    const kept = Math.max(SHORTEST_SECONDS, Math.min(LONGEST_SECONDS, before, timeToLive));
    if (!isPublic(address) || isOfCluster(address)) refused.push(address);
    else addresses.push({ address, milliseconds: kept * 1000 });
  }
  return { addresses, refused };
}

/** Returns the name and its aliases, with the shortest time to live on the way to each. */
function namesLeadingOn({ name, records }: DnsAnswer): ReadonlyMap<string, number> {
  const aliases = new Map<string, { readonly alias: string; readonly timeToLive: number }>();
  for (const { name: owner, timeToLive, leadsTo } of records) {
    if ("alias" in leadsTo) aliases.set(owner, { alias: leadsTo.alias, timeToLive });
  }
  const found = new Map([[name, LONGEST_SECONDS]]);
  let [at, seconds] = [name, LONGEST_SECONDS];
  for (let left = MOST_ALIASES; left > 0; left--) {
    const next = aliases.get(at);
    if (next === undefined || found.has(next.alias)) break;
    [at, seconds] = [next.alias, Math.min(seconds, next.timeToLive)];
    found.set(at, seconds);
  }
  return found;
}

/** Whether a name outside of the cluster may have the address. */
export function isPublic(address: Address): boolean {
  return !isInRanges(NOT_PUBLIC, address);
}
