import type { Address } from "../../../kernel/ip/address.ts";
import { patternsOf } from "../../../objects/domain_name.ts";
import type { NameGroup } from "../compile/profile.ts";

/** An address that a pod knows by names. */
export interface KnownAddress {
  readonly pod: Address;
  readonly remote: Address;
  /** The time until which each name counts, as the pod asked for it, by the clock. */
  readonly names: ReadonlyMap<string, number>;
  /** The name by which the address counts longest, by the key of each group whose set has it for the pod. */
  readonly groups: ReadonlyMap<string, Longest>;
}

interface Entry extends KnownAddress {
  readonly names: Map<string, number>;
  readonly groups: Map<string, Longest>;
}

/** The element of an address that a pod knows, or knew, in the set of a group of names. */
export interface ElementPlace extends Pick<KnownAddress, "pod" | "remote"> {
  readonly group: string;
}

/** The most places that entries take: one for each name of an address, or for each set that has it, whichever are more. */
export interface Bounds {
  readonly perPod: number;
  readonly perNode: number;
}

/** The entries of a pod, the oldest first, and the places that they take. */
interface Known {
  readonly entries: Map<Address, Entry>;
  places: number;
}

/** More names of one address than rules name. */
const MOST_NAMES = 16;
const NO_NAMES: KnownAddress["names"] = new Map();

/**
 * The addresses that the pods of this node know by names, each pod's oldest first. An entry stays beyond its time, so
 * that a change of policies does not end connections that began within it. Beyond a pod's bound its oldest entry goes,
 * and beyond the node's bound the oldest one of the pod that has most.
 */
export class KnownAddresses {
  /** The elements that have changed since they were written last. The writer empties the map. */
  readonly dirty = new Map<string, ElementPlace>();
  readonly #bounds: Bounds;
  readonly #byPod = new Map<Address, Known>();
  #places = 0;

  constructor(bounds: Bounds) {
    this.#bounds = bounds;
  }

  get size(): number {
    return [...this.#byPod.values()].reduce((sum, { entries }) => sum + entries.size, 0);
  }

  /**
   * Notes that a pod knows an address by a name until a time, and that it counts in some groups.
   *
   * @returns the entries that had to go
   */
  learn(pod: Address, remote: Address, name: string, until: number, groups: Iterable<string>): readonly KnownAddress[] {
    const entry = this.#byPod.get(pod)?.entries.get(remote) ?? {
      pod,
      remote,
      names: new Map<string, number>(),
      groups: new Map<string, Longest>(),
    };
    this.#delete(entry);
    const later = Math.max(until, entry.names.get(name) ?? until);
    entry.names.delete(name);
    entry.names.set(name, later);
    const [oldest] = entry.names.keys();
    if (entry.names.size > MOST_NAMES && oldest !== undefined) entry.names.delete(oldest);
    for (const group of groups) this.#lengthen(entry, group, { name, until });
    this.#add(entry);
    return this.#trim(pod);
  }

  /**
   * Notes by which groups of names a pod's addresses are found from now on. An address stays in a group that the pod
   * still has, since not all of its names are remembered.
   *
   * @returns the entries that had to go
   */
  regroup(pod: Address, groups: readonly NameGroup[]): readonly KnownAddress[] {
    const known = this.#byPod.get(pod);
    const keys = new Set(groups.map(({ key }) => key));
    for (const entry of known?.entries.values() ?? []) {
      const before = placesOf(entry);
      for (const group of entry.groups.keys()) {
        if (keys.has(group)) continue;
        entry.groups.delete(group);
        this.mark(entry, [group]);
      }
      for (const [name, until] of entry.names) {
        for (const group of groupsWith(groups, name)) this.#lengthen(entry, group, { name, until });
      }
      this.#count(known, placesOf(entry) - before);
    }
    return this.#trim(pod);
  }

  /** Marks the elements of an address in the sets of some groups as changed. */
  mark({ pod, remote }: Pick<KnownAddress, "pod" | "remote">, groups: Iterable<string>): void {
    for (const group of groups) this.dirty.set(`${group} ${pod} ${remote}`, { group, pod, remote });
  }

  /** Marks all that a pod knows, since its sets may have lost it. */
  markAll(pod: Address): void {
    for (const entry of this.of(pod)) this.mark(entry, entry.groups.keys());
  }

  /** Returns the time until which each name of an address counts for a pod, the last learned last. */
  namesOf(pod: Address, remote: Address): KnownAddress["names"] {
    return this.#byPod.get(pod)?.entries.get(remote)?.names ?? NO_NAMES;
  }

  /** Returns the name by which an address counts longest for a pod in a group. */
  longest({ pod, remote, group }: ElementPlace): Longest | undefined {
    return this.#byPod.get(pod)?.entries.get(remote)?.groups.get(group);
  }

  /** Lets the names by which an address counts now count until `later` at least, without another answer. */
  prolong({ pod, remote }: Pick<KnownAddress, "pod" | "remote">, now: number, later: number): void {
    const entry = this.#byPod.get(pod)?.entries.get(remote);
    if (entry === undefined) return;
    for (const [name, until] of entry.names) if (until > now) entry.names.set(name, Math.max(until, later));
    for (const [group, { name, until }] of entry.groups) {
      if (until > now) this.#lengthen(entry, group, { name, until: later });
    }
  }

  /** Returns the addresses that count now, of which some name ends by a time. */
  endingBetween(now: number, end: number): readonly KnownAddress[] {
    const all = [...this.#byPod.keys()].flatMap((pod) => this.of(pod));
    return all.filter(({ names }) => [...names.values()].some((until) => until > now && until <= end));
  }

  of(pod: Address): readonly KnownAddress[] {
    return [...(this.#byPod.get(pod)?.entries.values() ?? [])];
  }

  forget(pod: Address): void {
    for (const entry of this.#byPod.get(pod)?.entries.values() ?? []) this.#forget(entry);
  }

  /** Deletes the oldest entries of a pod beyond its bound, and of the pods with most beyond the node's; returns them. */
  #trim(pod: Address): readonly KnownAddress[] {
    const { perPod, perNode } = this.#bounds;
    const gone: Entry[] = [];
    for (;;) {
      const own = this.#byPod.get(pod);
      const isOver = own !== undefined && own.places > perPod;
      if (!isOver && this.#places <= perNode) return gone;
      const giving = isOver
        ? own
        : [...this.#byPod.values()].reduce((most, one) => (one.places > most.places ? one : most));
      const [oldest] = giving.entries.values();
      if (oldest === undefined) return gone;
      this.#forget(oldest);
      gone.push(oldest);
    }
  }

  /** Lets an entry count in a group until a time, unless it counts longer. */
  #lengthen(entry: Entry, group: string, longest: Longest): void {
    if (longest.until <= (entry.groups.get(group)?.until ?? 0)) return;
    entry.groups.set(group, longest);
    this.mark(entry, [group]);
  }

  #forget(entry: Entry): void {
    this.mark(entry, entry.groups.keys());
    this.#delete(entry);
  }

  #add(entry: Entry): void {
    const own = this.#byPod.get(entry.pod) ?? { entries: new Map<Address, Entry>(), places: 0 };
    this.#byPod.set(entry.pod, own);
    own.entries.set(entry.remote, entry);
    this.#count(own, placesOf(entry));
  }

  #delete(entry: Entry): void {
    const { pod, remote } = entry;
    const own = this.#byPod.get(pod);
    if (own?.entries.delete(remote) !== true) return;
    this.#count(own, -placesOf(entry));
    if (own.entries.size === 0) this.#byPod.delete(pod);
  }

  #count(known: Known | undefined, places: number): void {
    if (known !== undefined) known.places += places;
    this.#places += places;
  }
}

function placesOf({ names, groups }: KnownAddress): number {
  return Math.max(names.size, groups.size);
}

/** The name by which an address counts longest. */
export interface Longest {
  readonly name: string;
  readonly until: number;
}

const indexes = new WeakMap<readonly NameGroup[], ReadonlyMap<string, readonly string[]>>();

/** Returns the keys of those of some groups that have a name, which it finds by the name's labels only. */
export function groupsWith(groups: readonly NameGroup[], name: string): ReadonlySet<string> {
  const index = indexes.get(groups) ?? keysByPattern(groups);
  indexes.set(groups, index);
  return new Set(patternsOf(name).flatMap((pattern) => index.get(pattern) ?? []));
}

function keysByPattern(groups: readonly NameGroup[]): ReadonlyMap<string, readonly string[]> {
  const index = new Map<string, string[]>();
  for (const { key, names } of groups) {
    for (const pattern of names) {
      const keys = index.get(pattern) ?? [];
      keys.push(key);
      index.set(pattern, keys);
    }
  }
  return index;
}
