import { type Address, familyOf, formatAddress, FAMILIES } from "../../../kernel/ip/address.ts";
import { familyWords } from "../../../kernel/nftables/model/family_words.ts";
import type { SetDefinition } from "../../../kernel/nftables/model/object.ts";
import { concatenation, type Selector } from "../../../kernel/nftables/model/expression.ts";
import {
  anyFlag,
  dropping,
  equals,
  inSet,
  type Match,
  not,
  returnToCaller,
  type Rule,
  rule,
} from "../../../kernel/nftables/model/statement.ts";
import type { DesiredElement } from "../../ruleset/desired/desired_element.ts";
import type { Ruleset } from "../../ruleset/ruleset.ts";
import { INET_TABLE } from "../../ruleset/table_part.ts";
import { DropReason } from "./drop_reasons.ts";

/** Prefix of the sets of node addresses that are reached without a router, each as a pair with itself. */
const ON_LINK = "on_link_pair";

/** The destination address of the quoted packet, by the conntrack direction of the error that quotes it. */
const QUOTED_DESTINATION = {
  4: { original: "ct original ip saddr", reply: "ct reply ip saddr" },
  6: { original: "ct original ip6 saddr", reply: "ct reply ip6 saddr" },
} as const;

/** Matches "packet too big", which lowers the MTU of the path to the quoted packet's destination. */
export const TOO_BIG: Readonly<Record<4 | 6, readonly Match[]>> = {
  4: [equals("icmp type", "destination-unreachable"), equals("icmp code", "frag-needed")],
  6: [equals("icmpv6 type", "packet-too-big")],
};

/** The sets of {@link knownPathRules}. */
export const knownPathSets: readonly SetDefinition[] = FAMILIES.map((family) => ({
  name: `${ON_LINK}${family}`,
  key: [familyWords[family].type, familyWords[family].type],
}));

/**
 * Returns the rules that keep everybody from lowering the MTU of a path to a node on the link (ENDS-06). Only routers
 * report that a packet is too big, and such a path has none, so the report is forged by a sender on the link, or by one
 * that can send there from a spoofed address. The rules protect connections of the node, of the tunnel, and of pods.
 *
 * One such report is true: the node's address may stand for a client that the node masquerades. Its NAT
 * also gives the report this address. So a report from the quoted destination to a pod is believed (ENDS-08).
 *
 * An error travels in the direction of the replies to the packet it quotes: an error in direction "reply" is about a
 * packet from the first end to the second.
 *
 * @param ends prefix of the sets of pairs of a pod's addresses
 */
export function knownPathRules(bridge: string, ends: string): readonly Rule[] {
  return FAMILIES.flatMap((family) =>
    (["original", "reply"] as const).flatMap((direction) => {
      const { source, destination } = familyWords[family];
      const quoted = QUOTED_DESTINATION[family][direction];
      const isTooBig = [anyFlag("ct state", "related"), ...TOO_BIG[family], equals("ct direction", direction)];
      const isOnLink = (sender: Selector): Match => inSet(concatenation(sender, quoted), `${ON_LINK}${family}`);
      const isToPod = inSet(concatenation(destination, destination), `${ends}${family}`);
      return [
        rule(...isTooBig, not(equals("iifname", bridge)), isToPod, isOnLink(source), returnToCaller),
        dropping(DropReason.KNOWN_PATH, ...isTooBig, isOnLink(quoted)),
      ];
    }),
  );
}

/**
 * Returns a function that claims the addresses of nodes that are reached without a router, in place of those before. With
 * thousands of nodes a claim of all of them would take tens of milliseconds.
 *
 * @param ruleset whose tables have {@link knownPathSets}
 */
export function knownPaths(ruleset: Pick<Ruleset, "claim">): (addresses: ReadonlySet<Address>) => void {
  let known: ReadonlySet<Address> = new Set();
  const claim = (address: Address, elements: readonly DesiredElement[]): void =>
    ruleset.claim(`path to ${formatAddress(address)}`, elements);
  return (addresses) => {
    for (const address of known) if (!addresses.has(address)) claim(address, []);
    for (const address of addresses) if (!known.has(address)) claim(address, [elementOf(address)]);
    known = addresses;
  };
}

function elementOf(address: Address): DesiredElement {
  return { table: INET_TABLE, set: `${ON_LINK}${familyOf(address)}`, element: { key: [address, address] } };
}
