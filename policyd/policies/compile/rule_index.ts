import { type Address, compareAddresses } from "../../../kernel/ip/address.ts";
import { type Range, RangeIndex } from "../../lib/range_index.ts";
import type { Protocol } from "../../../objects/model.ts";
import { patternsOf } from "../../../objects/domain_name.ts";
import { PROTOCOLS } from "../../../objects/protocol.ts";
import type { NodeGroup, PodGroup, ProfileRule } from "./profile.ts";

/** A member of groups as an index sees it. */
export interface MemberView<T> {
  /** Whether a pod or node is one of the group's. */
  readonly isInGroup: (group: PodGroup | NodeGroup, member: T) => boolean;
  /** The two objects that decide in which groups a member is, so it is in the same ones as long as both stay. */
  readonly groupsFollow: (member: T) => readonly [object, object | undefined];
}

/** The end of a flow that rules name, with the only member that has the address, and the flow's port. */
export interface IndexedFlow<T> {
  readonly other: Address;
  /** Undefined for nobody in the cluster. */
  readonly member: T | undefined;
  readonly protocol: Protocol | undefined;
  readonly port: number;
  /** The names that the port may have. */
  readonly portNames: Iterable<string>;
  /** The domain names by which the flow's pod knows the address. */
  readonly knownNames: Iterable<string>;
}

/** Places in a list of rules, a bit for each. */
type Places = Uint32Array;

/** The most members whose groups an index keeps. */
const MOST_KNOWN = 1024;

const indexes = new WeakMap<readonly ProfileRule[], RuleIndex>();

/** Returns the index of the rules of a profile, which is built once. */
export function ruleIndexOf(rules: readonly ProfileRule[]): RuleIndex {
  const index = indexes.get(rules) ?? new RuleIndex(rules);
  indexes.set(rules, index);
  return index;
}

/**
 * Finds the rules that may match a flow without asking each: a pod may have thousands of rules, and tens of thousands of
 * connections that are judged by them.
 */
export class RuleIndex {
  readonly #rules: readonly ProfileRule[];
  /** Those about everyone. */
  readonly #anyPeer: Places;
  readonly #anyPort: Places;
  readonly #groups = new Map<string, { readonly group: PodGroup | NodeGroup; readonly places: number[] }>();
  readonly #names = new Map<string, number[]>();
  readonly #ranges: RangeIndex<Address, number>;
  readonly #ports: RangeIndex<number, number>;
  readonly #portNames = new Map<string, number[]>();
  readonly #known = new Map<object, { readonly other: object | undefined; readonly places: Places }>();

  constructor(rules: readonly ProfileRule[]) {
    this.#rules = rules;
    this.#anyPeer = new Uint32Array((rules.length + 31) >>> 5);
    this.#anyPort = this.#anyPeer.slice();
    const ranges: [Range<Address>, number][] = [];
    const ports: [Range<number>, number][] = [];
    for (const [place, rule] of rules.entries()) {
      if (rule.peers === undefined) add(this.#anyPeer, place);
      for (const peer of rule.peers ?? []) {
        if (peer.type === "names") for (const name of peer.names) entry(this.#names, name, () => []).push(place);
        else if (peer.type === "ranges") for (const range of peer.ranges) ranges.push([range, place]);
        else entry(this.#groups, peer.key, () => ({ group: peer, places: [] })).places.push(place);
      }
      if (rule.ports === undefined) add(this.#anyPort, place);
      for (const one of rule.ports ?? []) {
        if (one.type === "name") entry(this.#portNames, one.name, () => []).push(place);
        else ports.push([{ first: portKey(one.protocol, one.first), last: portKey(one.protocol, one.last) }, place]);
      }
    }
    this.#ranges = new RangeIndex(ranges, compareAddresses);
    this.#ports = new RangeIndex(ports, (a, b) => a - b);
  }

  /** Returns the first rule that holds of those that may match a flow. */
  find<T>(flow: IndexedFlow<T>, view: MemberView<T>, holds: (rule: ProfileRule) => boolean): ProfileRule | undefined {
    const [peers, ports] = [this.#peersOf(flow, view), this.#portsOf(flow)];
    for (let i = 0; i < peers.length; i++) {
      for (let left = (peers[i] ?? 0) & (ports[i] ?? 0); left !== 0; left &= left - 1) {
        const rule = this.#rules[32 * i + 31 - Math.clz32(left & -left)];
        if (rule !== undefined && holds(rule)) return rule;
      }
    }
    return undefined;
  }

  #peersOf<T>({ other, member, knownNames }: IndexedFlow<T>, view: MemberView<T>): Places {
    const places = this.#anyPeer.slice();
    this.#ranges.visit(other, (place) => add(places, place));
    for (const pattern of this.#names.size === 0 ? [] : [...knownNames].flatMap(patternsOf)) {
      for (const place of this.#names.get(pattern) ?? []) add(places, place);
    }
    if (member === undefined || this.#groups.size === 0) return places;
    const ofGroups = this.#placesOf(member, view);
    for (let i = 0; i < places.length; i++) places[i] = (places[i] ?? 0) | (ofGroups[i] ?? 0);
    return places;
  }

  #portsOf({ protocol, port, portNames }: Pick<IndexedFlow<unknown>, "protocol" | "port" | "portNames">): Places {
    if (protocol === undefined) return this.#anyPort;
    const places = this.#anyPort.slice();
    this.#ports.visit(portKey(protocol, port), (place) => add(places, place));
    for (const name of portNames) for (const place of this.#portNames.get(name) ?? []) add(places, place);
    return places;
  }

  /** Returns the places of the rules about groups that a member is in. */
  #placesOf<T>(member: T, view: MemberView<T>): Places {
    const [own, other] = view.groupsFollow(member);
    const known = this.#known.get(own);
    if (known !== undefined && known.other === other) return known.places;
    const places = new Uint32Array(this.#anyPeer.length);
    for (const { group, places: all } of this.#groups.values()) {
      if (view.isInGroup(group, member)) for (const place of all) add(places, place);
    }
    if (this.#known.size >= MOST_KNOWN) this.#known.clear();
    this.#known.set(own, { other, places });
    return places;
  }
}

function add(places: Places, place: number): void {
  places[place >>> 5] = (places[place >>> 5] ?? 0) | (1 << (place & 31));
}

/** Returns a number that tells apart ports of all protocols. */
function portKey(protocol: Protocol, port: number): number {
  return PROTOCOLS.indexOf(protocol) * 0x1_0000 + port;
}

function entry<V>(map: Map<string, V>, key: string, make: () => V): V {
  const found = map.get(key) ?? make();
  map.set(key, found);
  return found;
}
