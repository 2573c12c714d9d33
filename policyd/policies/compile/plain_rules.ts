import { type Family, FAMILIES } from "../../../kernel/ip/address.ts";
import { commentText } from "../../../kernel/nftables/model/identifier.ts";
import {
  counter,
  inSet,
  type Match,
  oneOf,
  type Rule,
  rule,
  type Statement,
} from "../../../kernel/nftables/model/statement.ts";
import { LINK } from "./peer_groups.ts";
import { numberedPorts } from "./numbered_ports.ts";
import type { Direction, PeerGroup, PortGroup, ProfileRule, RuleOrigin } from "./profile.ts";
import { namedPortMatch, peerAndPort, peerMatch, portMatches } from "./rule_parts.ts";
import { namedSource, type SetCollector } from "./sets/set_collector.ts";

/** A rule for nft, and the family of its packets; undefined for both families. */
export interface PlainRule {
  readonly family: Family | undefined;
  readonly rule: Rule;
}

/** Returns the comment of the rules compiled from a policy's rule; metrics find its counters by it. */
export function originComment({ kind, policy, index }: RuleOrigin): string {
  return commentText(`${kind} rule ${index} of ${policy}`);
}

/**
 * Compiles a profile's rule into rules for nft, one for each peer and kind of port: a packet that matches any of them
 * matches the rule.
 *
 * @param verdict the effect of a match
 */
export function* plainRules(
  direction: Direction,
  { peers, ports, origin }: ProfileRule,
  verdict: Statement,
  sets: SetCollector,
): Generator<PlainRule, void> {
  const comment = originComment(origin);
  const make = (family: Family | undefined, ...matches: readonly Match[]): PlainRule => ({
    family,
    rule: { ...rule(...matches, counter, verdict), comment },
  });
  const of = peers ?? [undefined];
  if (of.length === 0 || ports?.length === 0) return;
  for (const peer of of) {
    yield* numbered(direction, peer, ports, sets, make);
    for (const port of ports ?? []) if (port.type === "name") yield* named(direction, peer, port, sets, make);
  }
}

/** Destinations that the node hears by the addresses of its links, such as the broadcast address of its uplink. */
const IS_HEARD = oneOf("fib daddr type", ["broadcast", "anycast"]);

type Make = (family: Family | undefined, ...matches: readonly Match[]) => PlainRule;

/** Returns the rules for all traffic, or for ports by their numbers. */
function numbered(
  direction: Direction,
  peer: PeerGroup | undefined,
  ports: readonly PortGroup[] | undefined,
  sets: SetCollector,
  make: Make,
): readonly PlainRule[] {
  // A single rule without conditions, or one rule for each condition.
  const tests: readonly (readonly Match[])[] =
    ports === undefined ? [[]] : portMatches(numberedPorts(ports), sets).map((match) => [match]);
  if (tests.length === 0) return [];
  if (peer === undefined) return tests.map((test) => make(undefined, ...test));
  const found = FAMILIES.flatMap((family) => {
    const match = peerMatch(peer, direction, family, sets);
    return match === undefined ? [] : tests.map((test) => make(family, match, ...test));
  });
  return peer === LINK && direction === "egress"
    ? [...found, ...tests.map((test) => make(undefined, IS_HEARD, ...test))]
    : found;
}

/**
 * Returns the rules for a named port of the destination pod: of each peer for egress, of the profile's pod for ingress.
 * If the destination is in ranges of addresses, they match the range and look up the named ports of all pods.
 */
function named(
  direction: Direction,
  peer: PeerGroup | undefined,
  port: Extract<PortGroup, { readonly type: "name" }>,
  sets: SetCollector,
  make: Make,
): readonly PlainRule[] {
  return FAMILIES.flatMap((family) => {
    if (peer === undefined) return [make(family, namedPortMatch(port, family, sets))];
    // Only pods have names for ports (POL-31).
    if (direction === "egress" && peer.type === "nodes") return [];
    if (direction === "egress" && peer.type === "pods") {
      const name = sets.members("named", [namedSource(peer, port.protocol, port.name)]);
      return [make(family, inSet(peerAndPort(direction, family), `${name}${family}`))];
    }
    const match = peerMatch(peer, direction, family, sets);
    if (match === undefined) return [];
    const isEveryone = match.left === "meta nfproto";
    return [make(family, ...(isEveryone ? [] : [match]), namedPortMatch(port, family, sets))];
  });
}
