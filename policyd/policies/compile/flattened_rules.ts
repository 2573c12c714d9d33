import { type Family, familyOf, FAMILIES } from "../../../kernel/ip/address.ts";
import { type AddressRange, unitedRanges } from "../../../kernel/ip/ranges.ts";
import {
  counter,
  inSet,
  type Match,
  type Rule,
  rule,
  type Statement,
} from "../../../kernel/nftables/model/statement.ts";
import { each, type Slices } from "../../lib/sliced_work.ts";
import type { MemberSource } from "./sets/member_set.ts";
import { type NumberedPorts, numberedPorts, type PortNumber, type ProtocolPortRange } from "./numbered_ports.ts";
import type { Direction, PeerGroup, PodGroup, PortGroup, ProfileRule } from "./profile.ts";
import { namedPortMatch, peerAndPort, portMatches, rangesMatch } from "./rule_parts.ts";
import { namedSource, type PlacedRange, type SetCollector } from "./sets/set_collector.ts";
import { peerField } from "./port_fields.ts";

/** The number of pairs per slice, which takes a millisecond or less. */
const PAIRS_AT_ONCE = 512;

type PortName = Extract<PortGroup, { readonly type: "name" }>;

/** The peers that may send to a port, or receive at it. */
interface Peers {
  readonly groups: Map<string, PodGroup>;
  readonly ranges: AddressRange[];
}

/** Everything that rules allow, by the lookup that finds it. */
interface Flattened {
  /** Everyone at every port. */
  isEverything: boolean;
  /** Everyone at these ports. */
  readonly everyone: PortGroup[];
  /** At every port. */
  readonly anyPort: Peers;
  /** Peers at single ports: pods by their groups' keys, ranges by port. */
  readonly podPorts: Map<string, { readonly group: PodGroup; readonly ports: PortGroup[] }>;
  readonly rangePorts: Map<string, PortNumber & { readonly ranges: AddressRange[] }>;
  readonly portRanges: Map<string, ProtocolPortRange & Peers>;
  /** Peers at ports named by the destination's pod: the profile's own pod for ingress, one within ranges for egress. */
  readonly ownNames: Map<string, PortName & Peers>;
}

/**
 * Compiles what NetworkPolicies allow into a few lookups in large sets, some of which belong only to the profile. This
 * is for many rules: their order and number then do not affect the cost of a packet. Only ranges of ports of certain
 * peers, and peers of certain names of ports, are checked one after the other.
 */
export function* flattenedRules(
  direction: Direction,
  rules: readonly ProfileRule[],
  verdict: Statement,
  sets: SetCollector,
): Slices<readonly Rule[]> {
  const all = yield* flattened(direction, rules);
  const make = (comment: string, ...matches: readonly Match[]): Rule => ({
    ...rule(...matches, counter, verdict),
    comment,
  });
  if (all.isEverything) return [make("everyone at every port")];
  const lookups = yield* lookupsOf(direction, all, sets);
  const made = portMatches(numberedPorts(all.everyone), sets).map((match) => make("everyone at ports", match));
  for (const family of FAMILIES) {
    yield* each(lookups, ({ comment, matches }) => {
      for (const match of matches(family)) made.push(make(comment, ...match));
    });
    yield;
  }
  return made;
}

/** The rules of one kind for a family's packets, as the conditions of each. */
interface Lookup {
  readonly comment: string;
  readonly matches: (family: Family) => readonly (readonly Match[])[];
}

function* lookupsOf(direction: Direction, all: Flattened, sets: SetCollector): Slices<readonly Lookup[]> {
  const everyoneNames = distinctNames(all.everyone).map(({ protocol, name }) => namedSource(undefined, protocol, name));
  const podPorts: MemberSource[] = [];
  yield* each(all.podPorts.values(), ({ group, ports }) => {
    for (const source of portSources(group, ports)) podPorts.push(source);
  });
  const placed: PlacedRange[] = [];
  yield* each(all.rangePorts.values(), ({ protocol, port, ranges }) => {
    for (const range of unitedRanges(ranges)) placed.push({ range, protocol, port });
  });
  yield;
  const lookups: Lookup[] = [
    setLookup("everyone at named ports", everyoneNames, "egress", sets),
    { comment: "peers at every port", matches: peersLookup(direction, all.anyPort, sets) },
    setLookup("peers at ports", podPorts, direction, sets),
    {
      comment: "ranges at ports",
      matches: (family) => {
        const own = placed.filter(({ range }) => familyOf(range.first) === family);
        return own.length === 0 ? [] : [[inSet(peerAndPort(direction, family), sets.placedRanges(family, own))]];
      },
    },
  ];
  yield* each(all.portRanges.values(), (range) => {
    const peers = peersLookup(direction, range, sets);
    const tests = portMatches({ singles: [], ranges: [range] }, sets);
    lookups.push({
      comment: "peers at a range of ports",
      matches: (family) => peers(family).map((one) => [...one, ...tests]),
    });
  });
  yield* each(all.ownNames.values(), (name) => {
    const peers = peersLookup(direction, name, sets);
    lookups.push({
      comment: "peers at a named port",
      matches: (family) => {
        const test = namedPortMatch(name, family, sets);
        // The lookup of the name already checks the family.
        return peers(family).map((one) => [...one.filter(({ left }) => left !== "meta nfproto"), test]);
      },
    });
  });
  return lookups;
}

function setLookup(
  comment: string,
  sources: readonly MemberSource[],
  direction: Direction,
  sets: SetCollector,
): Lookup {
  if (sources.length === 0) return { comment, matches: () => [] };
  const name = sets.members("flat", sources, true);
  return { comment, matches: (family) => [[inSet(peerAndPort(direction, family), `${name}${family}`)]] };
}

function peersLookup(direction: Direction, { groups, ranges }: Peers, sets: SetCollector): Lookup["matches"] {
  const sources = [...groups.values()].map((group): MemberSource => ({ group, ports: { type: "none" } }));
  const name = sources.length === 0 ? undefined : sets.members("flat", sources, true);
  return (family) => {
    const match = rangesMatch(ranges, direction, family, sets);
    const inGroup = name === undefined ? [] : [[inSet(peerField(direction, family), `${name}${family}`)]];
    return match === undefined ? inGroup : [...inGroup, [match]];
  };
}

function* flattened(direction: Direction, rules: readonly ProfileRule[]): Slices<Flattened> {
  const all: Flattened = {
    isEverything: false,
    everyone: [],
    anyPort: newPeers(),
    podPorts: new Map(),
    rangePorts: new Map(),
    portRanges: new Map(),
    ownNames: new Map(),
  };
  let left = PAIRS_AT_ONCE;
  for (const { peers, ports } of rules) {
    if (peers === undefined) {
      if (ports === undefined) all.isEverything = true;
      else all.everyone.push(...ports);
      continue;
    }
    const numbers = ports === undefined ? undefined : numberedPorts(ports);
    const named = names(ports ?? []);
    for (const peer of peers) {
      if (numbers === undefined) addPeer(all.anyPort, peer);
      else addAtPorts(all, direction, peer, numbers, named);
      // One peer at many ports takes as long as many peers at one port.
      left -= 1 + (ports?.length ?? 0);
      if (left > 0) continue;
      left = PAIRS_AT_ONCE;
      yield;
    }
  }
  return all;
}

function addAtPorts(
  all: Flattened,
  direction: Direction,
  peer: PeerGroup,
  { singles, ranges }: NumberedPorts,
  named: readonly PortName[],
): void {
  for (const range of ranges) {
    const { protocol, first, last } = range;
    addPeer(
      entry(all.portRanges, `${protocol} ${first} ${last}`, () => ({ ...range, ...newPeers() })),
      peer,
    );
  }
  // Pods as destinations are looked up with their ports below. Only pods have names for ports (POL-31).
  if (direction === "ingress" || peer.type === "ranges") {
    for (const name of named) {
      addPeer(
        entry(all.ownNames, `${name.protocol} ${name.name}`, () => ({ ...name, ...newPeers() })),
        peer,
      );
    }
  }
  if (peer.type === "pods") {
    const found = [
      ...singles.map(({ protocol, port }): PortGroup => ({ type: "range", protocol, first: port, last: port })),
      ...(direction === "egress" ? named : []),
    ];
    if (found.length > 0) entry(all.podPorts, peer.key, () => ({ group: peer, ports: [] })).ports.push(...found);
  }
  if (peer.type !== "ranges") return;
  for (const single of singles) {
    const { protocol, port } = single;
    entry(all.rangePorts, `${protocol} ${port}`, () => ({ ...single, ranges: [] })).ranges.push(...peer.ranges);
  }
}

function portSources(group: PodGroup, ports: readonly PortGroup[]): readonly MemberSource[] {
  const { singles } = numberedPorts(ports);
  return [
    ...(singles.length > 0 ? [{ group, ports: { type: "numbers", ports: singles } } as const] : []),
    ...distinctNames(ports).map(({ protocol, name }) => namedSource(group, protocol, name)),
  ];
}

function distinctNames(ports: readonly PortGroup[]): readonly PortName[] {
  return [...new Map(names(ports).map((port) => [`${port.protocol} ${port.name}`, port])).values()];
}

function names(ports: readonly PortGroup[]): readonly PortName[] {
  return ports.filter((port) => port.type === "name");
}

function newPeers(): Peers {
  return { groups: new Map(), ranges: [] };
}

/** Adds a peer. NetworkPolicies have no peers that are nodes. */
function addPeer({ groups, ranges }: Peers, peer: PeerGroup): void {
  if (peer.type === "pods") groups.set(peer.key, peer);
  else if (peer.type === "ranges") ranges.push(...peer.ranges);
}

function entry<V>(map: Map<string, V>, key: string, make: () => V): V {
  const found = map.get(key) ?? make();
  map.set(key, found);
  return found;
}
