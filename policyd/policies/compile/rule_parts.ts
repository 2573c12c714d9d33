import { bitsOf, type Family, familyOf } from "../../../kernel/ip/address.ts";
import type { Cidr } from "../../../kernel/ip/cidr.ts";
import { type AddressRange, unitedRanges } from "../../../kernel/ip/ranges.ts";
import { type Concatenation, concatenation } from "../../../kernel/nftables/model/expression.ts";
import { equals, inPrefix, inSet, type Match } from "../../../kernel/nftables/model/statement.ts";
import { isWholeProtocol, type NumberedPorts } from "./numbered_ports.ts";
import type { Direction, PeerGroup, PortGroup } from "./profile.ts";
import { namedSource, type SetCollector } from "./sets/set_collector.ts";
import { familyWords } from "../../../kernel/nftables/model/family_words.ts";
import { peerField, portField, protocolWord } from "./port_fields.ts";

/** Returns matches for ports by their numbers: a packet with one of the ports passes one of them. */
export function portMatches({ singles, ranges }: NumberedPorts, sets: SetCollector): readonly Match[] {
  const matches: Match[] = [];
  const [only, ...others] = singles;
  if (only !== undefined && others.length === 0) matches.push(equals(portField(only.protocol), only.port));
  else if (only !== undefined) matches.push(inSet(concatenation("meta l4proto", "th dport"), sets.ports(singles)));
  for (const [protocol, own] of Map.groupBy(ranges, (range) => range.protocol)) {
    const [range, ...more] = own;
    if (range === undefined) continue;
    if (isWholeProtocol(range)) matches.push(equals("meta l4proto", protocolWord(protocol)));
    else if (more.length > 0) matches.push(inSet(portField(protocol), sets.portRanges(own)));
    else matches.push(rangeMatch(portField(protocol), range.first, range.last));
  }
  return matches;
}

/** Returns the fields for the peer's address and the packet's destination port. */
export function peerAndPort(direction: Direction, family: Family): Concatenation {
  return concatenation(peerField(direction, family), "meta l4proto", "th dport");
}

/** Returns the match for a named port of the destination pod. */
export function namedPortMatch(
  { protocol, name }: Extract<PortGroup, { readonly type: "name" }>,
  family: Family,
  sets: SetCollector,
): Match {
  return inSet(
    peerAndPort("egress", family),
    `${sets.members("named", [namedSource(undefined, protocol, name)])}${family}`,
  );
}

/** Returns the match for a peer's address in a group; undefined if the group has none of the family. */
export function peerMatch(
  peer: PeerGroup,
  direction: Direction,
  family: Family,
  sets: SetCollector,
): Match | undefined {
  if (peer.type === "names") return sets.names(peer, family);
  if (peer.type === "ranges") return rangesMatch(peer.ranges, direction, family, sets);
  const name = sets.members(peer.type, [{ group: peer, ports: { type: "none" } }]);
  return inSet(peerField(direction, family), `${name}${family}`);
}

/** Returns the match for addresses in ranges, whatever their order; undefined if none is of the family. */
export function rangesMatch(
  ranges: readonly AddressRange[],
  direction: Direction,
  family: Family,
  sets: SetCollector,
): Match | undefined {
  const own = unitedRanges(ranges.filter(({ first }) => familyOf(first) === family));
  const [only, ...others] = own;
  if (only === undefined) return undefined;
  const selector = peerField(direction, family);
  if (others.length > 0) return inSet(selector, sets.ranges(family, own));
  const prefix = prefixOf(only);
  if (prefix === undefined) return rangeMatch(selector, only.first, only.last);
  // nft does not support a prefix of length 0.
  return prefix.prefixLength === 0 ? equals("meta nfproto", familyWords[family].protocol) : inPrefix(selector, prefix);
}

function rangeMatch(left: Match["left"], first: number | bigint, last: number | bigint): Match {
  return { kind: "match", left, isNegated: false, right: { kind: "range", first, last } };
}

/** Returns the prefix of exactly these addresses; undefined if there is none. */
function prefixOf({ first, last }: AddressRange): Cidr | undefined {
  const size = BigInt(last) - BigInt(first) + 1n;
  if ((size & (size - 1n)) !== 0n || BigInt(first) % size !== 0n) return undefined;
  return { address: first, prefixLength: bitsOf(familyOf(first)) - (size.toString(2).length - 1) };
}
