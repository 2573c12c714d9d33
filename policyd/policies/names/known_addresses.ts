import type { Address } from "../../../kernel/ip/address.ts";
import { matchesDomain } from "../../../objects/domain_name.ts";

/** An address that a pod knows by names. */
export interface KnownAddress {
  readonly pod: Address;
  readonly remote: Address;
  /** The time until which each name counts, as the pod asked for it, by the clock. */
  readonly names: ReadonlyMap<string, number>;
}

interface Entry extends KnownAddress {
  readonly names: Map<string, number>;
}

export interface Bounds {
  readonly perPod: number;
  readonly perNode: number;
}

/** More names of one address than rules name. */
const MOST_NAMES = 16;
const NO_NAMES: KnownAddress["names"] = new Map();

/**
 * The addresses that the pods of this node know by names, the oldest first. An entry stays beyond its time, so that a
 * change of policies does not end connections that began within it; beyond the bounds the oldest entry goes.
 */
export class KnownAddresses {
  readonly #bounds: Bounds;
  /** In the order in which they were learned last. */
  readonly #all = new Set<Entry>();
  readonly #byPod = new Map<Address, Map<Address, Entry>>();

  constructor(bounds: Bounds) {
    this.#bounds = bounds;
  }

  get size(): number {
    return this.#all.size;
  }

  /** Notes that a pod knows an address by a name until a time. @returns the entries that had to go */
  learn(pod: Address, remote: Address, name: string, until: number): readonly KnownAddress[] {
    const entry = this.#byPod.get(pod)?.get(remote) ?? { pod, remote, names: new Map<string, number>() };
    this.#delete(entry);
    const later = Math.max(until, entry.names.get(name) ?? until);
    entry.names.delete(name);
    entry.names.set(name, later);
    const [oldest] = entry.names.keys();
    if (entry.names.size > MOST_NAMES && oldest !== undefined) entry.names.delete(oldest);
    const own = this.#byPod.get(pod) ?? new Map<Address, Entry>();
    this.#byPod.set(pod, own.set(remote, entry));
    this.#all.add(entry);
    const [first] = own.size > this.#bounds.perPod ? own.values() : this.#all.values();
    if (first === undefined || (own.size <= this.#bounds.perPod && this.#all.size <= this.#bounds.perNode)) return [];
    this.#delete(first);
    return [first];
  }

  /** Returns until when an address counts for a pod by some of these names; undefined if it never did. */
  until(patterns: readonly string[], pod: Address, remote: Address): number | undefined {
    const entry = this.#byPod.get(pod)?.get(remote);
    return entry && untilOf(patterns, entry)?.until;
  }

  /** Returns the time until which each name of an address counts for a pod, the last learned last. */
  namesOf(pod: Address, remote: Address): KnownAddress["names"] {
    return this.#byPod.get(pod)?.get(remote)?.names ?? NO_NAMES;
  }

  /** Lets a name that a pod knows count until a later time, without a further answer. */
  prolong(pod: Address, remote: Address, name: string, until: number): void {
    const names = this.#byPod.get(pod)?.get(remote)?.names;
    if (names?.has(name) === true) names.set(name, until);
  }

  /** Returns the addresses that count now, of which some name ends by a time. */
  endingBetween(now: number, end: number): readonly KnownAddress[] {
    return [...this.#all].filter(({ names }) => [...names.values()].some((until) => until > now && until <= end));
  }

  of(pod: Address): readonly KnownAddress[] {
    return [...(this.#byPod.get(pod)?.values() ?? [])];
  }

  /** @returns what a pod knew */
  forget(pod: Address): readonly KnownAddress[] {
    const entries = [...(this.#byPod.get(pod)?.values() ?? [])];
    for (const entry of entries) this.#delete(entry);
    return entries;
  }

  #delete(entry: Entry): void {
    const { pod, remote } = entry;
    this.#all.delete(entry);
    const own = this.#byPod.get(pod);
    own?.delete(remote);
    if (own?.size === 0) this.#byPod.delete(pod);
  }
}

/** Returns the name among some by which an address counts longest; undefined where none of them led to it. */
export function untilOf(
  patterns: readonly string[],
  { names }: KnownAddress,
): { readonly name: string; readonly until: number } | undefined {
  return [...names]
    .filter(([name]) => patterns.some((pattern) => matchesDomain(pattern, name)))
    .map(([name, until]) => ({ name, until }))
    .reduce<{ name: string; until: number } | undefined>(
      (a, b) => (a !== undefined && a.until > b.until ? a : b),
      undefined,
    );
}
