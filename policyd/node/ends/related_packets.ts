import type { Address } from "../../../kernel/ip/address.ts";
import { familyOf } from "../../../kernel/ip/address.ts";
import { concatenation } from "../../../kernel/nftables/expression.ts";
import { familyWords } from "../../../kernel/nftables/family_words.ts";
import type { Chain } from "../../../kernel/nftables/object.ts";
import type { Match, Rule } from "../../../kernel/nftables/statement.ts";
import {
  anyFlag,
  dropping,
  equals,
  goTo,
  inSet,
  jumpTo,
  not,
  oneOf,
  rule,
} from "../../../kernel/nftables/statement.ts";
import type { Claim } from "../../dataplane/claim.ts";
import type { TablePart } from "../table_part.ts";
import { INET_TABLE } from "../table_part.ts";
import { knownPathRules, knownPathSets, TOO_BIG } from "./known_paths.ts";

const FAMILIES = [4, 6] as const;

/** Sets of pairs of a pod's own addresses; the first is followed by the number of the family. */
const SETS = { ends: "ends", advertised: "advertised6" } as const;

/** The comments of the rules that drop, by which people and metrics tell their counters apart. */
export const EndsDropReason = {
  ERROR: "error about a connection of others",
  TOO_BIG: "packet too big about a translated connection",
  ADVERTISED: "advertisement of an address not of the pod",
} as const satisfies Readonly<Record<string, string>>;

/** By the connection's two ends: the first is who began it, the second who answers, after all translation. */
const ENDS_OF_CONNECTION = {
  4: ["ct original ip saddr", "ct reply ip saddr"],
  6: ["ct original ip6 saddr", "ct reply ip6 saddr"],
} as const;

/** Errors about another packet, as connection tracking sees them (nf_conntrack_icmpv4_error, nf_conntrack_icmpv6_error). */
const ERRORS: Readonly<Record<4 | 6, Match>> = {
  4: oneOf("icmp type", ["destination-unreachable", "source-quench", "redirect", "time-exceeded", "parameter-problem"]),
  // A host hands errors of types that it does not know to their sockets, too (RFC 4443 section 2.4).
  6: { kind: "match", left: "icmpv6 type", isNegated: false, right: { kind: "range", first: 0, last: 127 } },
};

/**
 * The part of the inet table that lets a pod affect only connections of which it is an end (ENDS-01 to ENDS-04).
 *
 * An ICMP error belongs to the connection that it quotes, whoever sends it, and the hosts at its ends believe it: a port is
 * unreachable, or the path takes smaller packets only. So the sender has to be one of the connection's two ends. Pods send from
 * their own addresses only ({@link guard}), and before source NAT an address of the packet is that of the connection's end, in
 * either direction. An error about a packet that nobody tracks says nothing that could be verified, and is dropped. Where a
 * connection is translated, its other end knows the pod by an address that others share, so the pod does not say how large
 * packets to that address may be: a pod is not a router. The first packet of a connection that another one announced (an
 * expectation of a conntrack helper) is related, too; it is from an end, and policies judge it as they judge all others.
 *
 * A neighbour advertisement is believed for the target in it. The node has permanent neighbours for its pods, but would believe
 * one for an address that nobody has.
 *
 * This comes after connection tracking (-200) and destination NAT (-100), and before routing: so it holds for packets to the
 * node and for those that are forwarded, with policies and without. Packets of all that have begun a connection, but for
 * translated ones, do not come here (marks.ts). Packets from other addresses than pods' stay as they are.
 */
export function relatedPackets(): TablePart {
  return {
    sets: [
      ...FAMILIES.map((family) => {
        const { type } = familyWords[family];
        return { name: `${SETS.ends}${family}`, key: [type, type] };
      }),
      { name: SETS.advertised, key: ["ipv6_addr", "sixteen_bytes"] },
      ...knownPathSets,
    ],
    chains: [ofPods(), ownErrors()],
    shared: {
      after_nat_prerouting: [rule(not(anyFlag("ct state", "new", "established")), jumpTo("related"))],
    },
  };
}

function ofPods(): Chain {
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
          dropping(EndsDropReason.ERROR, isRelated, isOfPod),
          dropping(EndsDropReason.ERROR, ERRORS[family], isOfPod),
        ];
      }),
      dropping(
        EndsDropReason.ADVERTISED,
        equals("icmpv6 type", "nd-neighbor-advert"),
        inSet(concatenation("ip6 saddr", "ip6 saddr"), `${SETS.ends}6`),
        not(inSet(concatenation("ip6 saddr", "@th,64,128"), SETS.advertised)),
      ),
      ...knownPathRules,
    ],
  };
}

function ownErrors(): Chain {
  const isTranslated = anyFlag("ct status", "snat", "dnat");
  return {
    name: "own_errors",
    rules: [
      dropping(EndsDropReason.TOO_BIG, isTranslated, ...TOO_BIG[4]),
      dropping(EndsDropReason.TOO_BIG, isTranslated, ...TOO_BIG[6]),
    ],
  };
}

/** Returns a pod's elements: each pair of its addresses of one family, and its link-local address with itself. */
export function endsElements(addresses: readonly Address[], linkLocal: Address, comment: string): readonly Claim[] {
  const pairs = addresses.flatMap((first) =>
    addresses.flatMap((second) => (familyOf(first) === familyOf(second) ? [[first, second] as const] : [])),
  );
  return [...pairs, [linkLocal, linkLocal] as const].flatMap((key) => {
    const family = familyOf(key[0]);
    const sets = [`${SETS.ends}${family}`, ...(family === 6 ? [SETS.advertised] : [])];
    return sets.map((set): Claim => ({ table: INET_TABLE, set, element: { key, comment } }));
  });
}
