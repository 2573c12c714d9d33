import type { Address } from "../../../kernel/ip/address.ts";
import { behindNat64, isPublic } from "../../../kernel/ip/public_address.ts";
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
    if (!isPublic(address) || isOfCluster(behindNat64(address))) refused.push(address);
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
