import { type Address, familyOf, FAMILIES } from "../../../kernel/ip/address.ts";
import { concatenation } from "../../../kernel/nftables/model/expression.ts";
import { familyWords } from "../../../kernel/nftables/model/family_words.ts";
import type { Chain } from "../../../kernel/nftables/model/object.ts";
import {
  anyFlag,
  dropping,
  equals,
  goTo,
  inSet,
  jumpTo,
  type Match,
  not,
  oneOf,
  type Rule,
  rule,
} from "../../../kernel/nftables/model/statement.ts";
import type { DesiredElement } from "../../ruleset/desired/desired_element.ts";
import { INET_TABLE, type TablePart } from "../../ruleset/table_part.ts";
import { knownPathRules, knownPathSets, TOO_BIG } from "./path_mtu_guard.ts";
import { DropReason } from "./drop_reasons.ts";

/** Sets of pairs of a pod's own addresses; the digit of the family follows the first name. */
const SETS = { ends: "ends", advertised: "advertised6" } as const;

/** The addresses of a connection's ends after all translation: the one that opened it, then the one that replies. */
const ENDS_OF_CONNECTION = {
  4: ["ct original ip saddr", "ct reply ip saddr"],
  6: ["ct original ip6 saddr", "ct reply ip6 saddr"],
} as const;

/** Matches the error types of connection tracking (nf_conntrack_icmpv4_error, nf_conntrack_icmpv6_error). */
const ERRORS: Readonly<Record<4 | 6, Match>> = {
  4: oneOf("icmp type", ["destination-unreachable", "source-quench", "redirect", "time-exceeded", "parameter-problem"]),
  // A host also hands errors of unknown types to their sockets (RFC 4443 section 2.4).
  6: { kind: "match", left: "icmpv6 type", isNegated: false, right: { kind: "range", first: 0, last: 127 } },
};

/**
 * Returns the part of the inet table that lets a pod affect only connections of which it is an end (ENDS-01 to
 * ENDS-04).
 *
 * An ICMP error belongs to the connection that it quotes, whoever sends it, and the hosts at both ends believe it: a
 * port is unreachable, or the path takes only smaller packets. So the sender must be one of the connection's ends. Pods
 * send only from their own addresses (guard.ts), and before source NAT an address of the packet equals the address
 * of the connection's end, in either direction. An error about an untracked packet cannot be verified and is dropped.
 * Where a connection is translated, its other end knows the pod by a shared address, so the pod must not set the packet
 * size for that address: a pod is not a router. The first packet of a connection that another one announced (an
 * expectation of a conntrack helper) is related as well; it comes from an end, and policies treat it like any other.
 *
 * A host believes a neighbour advertisement for the target inside it. The node has permanent neighbours for its pods,
 * but would believe one for an address that nobody has.
 *
 * The chain runs after connection tracking (-200) and destination NAT (-100) and before routing, so it covers packets
 * to the node and forwarded ones, with and without policies. New and established packets skip it, except those of
 * translated connections (marks.ts). Packets from addresses that belong to no pod pass unchanged.
 */
export function relatedPackets(bridge: string): TablePart {
  return {
    sets: [
      ...FAMILIES.map((family) => {
        const { type } = familyWords[family];
        return { name: `${SETS.ends}${family}`, key: [type, type] };
      }),
      { name: SETS.advertised, key: ["ipv6_addr", "sixteen_bytes"] },
      ...knownPathSets,
    ],
    chains: [ofPods(bridge), ownErrors()],
    shared: {
      after_nat_prerouting: [rule(not(anyFlag("ct state", "new", "established")), jumpTo("related"))],
    },
  };
}

function ofPods(bridge: string): Chain {
  const isRelated = anyFlag("ct state", "related");
  return {
    name: "related",
    rules: [
      ...FAMILIES.flatMap((family): readonly Rule[] => {
        const { source } = familyWords[family];
        const ends = `${SETS.ends}${family}`;
        const isOfPod = inSet(concatenation(source, source), ends);
        return [
          ...ENDS_OF_CONNECTION[family].map((end) =>
            rule(isRelated, inSet(concatenation(source, end), ends), goTo("own_errors")),
          ),
          dropping(DropReason.ERROR, isRelated, isOfPod),
          dropping(DropReason.ERROR, ERRORS[family], isOfPod),
        ];
      }),
      dropping(
        DropReason.ADVERTISED,
        equals("icmpv6 type", "nd-neighbor-advert"),
        inSet(concatenation("ip6 saddr", "ip6 saddr"), `${SETS.ends}6`),
        not(inSet(concatenation("ip6 saddr", "@th,64,128"), SETS.advertised)),
      ),
      ...knownPathRules(bridge, SETS.ends),
    ],
  };
}

function ownErrors(): Chain {
  const isTranslated = anyFlag("ct status", "snat", "dnat");
  return {
    name: "own_errors",
    rules: [
      dropping(DropReason.TOO_BIG, isTranslated, ...TOO_BIG[4]),
      dropping(DropReason.TOO_BIG, isTranslated, ...TOO_BIG[6]),
    ],
  };
}

/** Returns a pod's elements: each pair of its addresses of one family, and its link-local address with itself. */
export function endsElements(
  addresses: readonly Address[],
  linkLocal: Address,
  comment: string,
): readonly DesiredElement[] {
  const pairs = addresses.flatMap((first) =>
    addresses.flatMap((second) => (familyOf(first) === familyOf(second) ? [[first, second] as const] : [])),
  );
  return [...pairs, [linkLocal, linkLocal] as const].flatMap((key) => {
    const family = familyOf(key[0]);
    const sets = [`${SETS.ends}${family}`, ...(family === 6 ? [SETS.advertised] : [])];
    return sets.map((set): DesiredElement => ({ table: INET_TABLE, set, element: { key, comment } }));
  });
}
