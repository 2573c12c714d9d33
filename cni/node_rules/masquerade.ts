import { TRANSPORTS } from "../../kernel/ip/protocol.ts";
import { type Address, type Family, familyOf, FAMILIES } from "../../kernel/ip/address.ts";
import { type Cidr, cidrFamily, outermost } from "../../kernel/ip/cidr.ts";
import { MULTICAST } from "../../kernel/ip/special.ts";
import { concatenation } from "../../kernel/nftables/model/expression.ts";
import { familyWords } from "../../kernel/nftables/model/family_words.ts";
import type { SetDefinition } from "../../kernel/nftables/model/object.ts";
import {
  dropping,
  inPrefix,
  inSet,
  not,
  oneOf,
  type Rule,
  rule,
  type Statement,
} from "../../kernel/nftables/model/statement.ts";
import { intervalOf, type SetElements } from "./set_elements.ts";

interface FamilySets {
  /** Pods whose traffic leaves the node with the node's address. */
  readonly masqueraded: SetDefinition;
  /** Pairs of a pod and a destination to which its traffic keeps the pod's address. */
  readonly unmasqueraded: SetDefinition;
}

function familySets(family: Family): FamilySets {
  const { type } = familyWords[family];
  return {
    masqueraded: { name: `masqueraded${family}`, key: [type] },
    unmasqueraded: { name: `unmasqueraded${family}`, key: [type, type], isInterval: true },
  };
}

const sets: Readonly<Record<Family, FamilySets>> = { 4: familySets(4), 6: familySets(6) };

/** The sets that the rules of this file use. */
export const masqueradeSets: readonly SetDefinition[] = FAMILIES.flatMap((family) => {
  const { masqueraded, unmasqueraded } = sets[family];
  return [masqueraded, unmasqueraded];
});

/** The ports above those of a node's services: system ports, those of the kubelet and of tunnels, and NodePorts. */
const HIDDEN_PORTS = { first: 32_768, last: 65_535 } as const;
const hasPorts = oneOf("meta l4proto", TRANSPORTS);
const isIcmp = oneOf("meta l4proto", ["icmp", "ipv6-icmp"]);

/** The comment of the rules that drop, which tells their counters apart for people and metrics. */
export const PORTLESS_REASON = "masqueraded packet of a protocol without ports";

/**
 * Returns the rules that masquerade a packet when all conditions hold.
 *
 * A packet that arrives at the node from the remote socket of a masqueraded flow, and at the port of that flow, counts
 * as an answer to it: so a flow that has the port of a node's service receives packets for this service ("port
 * shadowing", CVE-2021-3773). The kernel would choose among all ports from 1024 on, and for a flow from a port below
 * 512 among those below 512 (nf_nat_l4proto_unique_tuple), so that 511 flows would occupy all of them. The ports are
 * fully random, since many pods behind one address then collide less often.
 *
 * For a protocol without ports, such as ESP, GRE or IP in IP, connection tracking knows only the two addresses. The
 * first pod that sent to a host would then receive all packets of this protocol that the host sends to the node, also
 * those for the node's own IPsec or tunnel. So such packets are dropped. An echo request of ICMP has an identifier of
 * its own instead of a port.
 */
export function hiding(...conditions: readonly Statement[]): readonly Rule[] {
  return [
    rule(...conditions, hasPorts, { kind: "masquerade", ports: HIDDEN_PORTS }),
    rule(...conditions, isIcmp, { kind: "masquerade" }),
    dropping(PORTLESS_REASON, ...conditions),
  ];
}

/** Returns the conditions under which a pod's packet leaves with the node's address. */
export function masqueradeConditions(family: Family): readonly Statement[] {
  const { source, destination } = familyWords[family];
  return [
    inSet(source, sets[family].masqueraded.name),
    not(inPrefix(destination, MULTICAST[family])),
    not(inSet(concatenation(source, destination), sets[family].unmasqueraded.name)),
  ];
}

/** Rules for postrouting at 100. */
export const masqueradeRules: readonly Rule[] = FAMILIES.flatMap((family) => hiding(...masqueradeConditions(family)));

/**
 * Returns the elements that masquerade a pod's packets.
 *
 * @param networks the destinations for which the source is kept
 * @param comment of each element: its owner
 */
export function masqueradeElements(
  addresses: readonly Address[],
  networks: readonly Cidr[],
  comment: string,
): readonly SetElements[] {
  return FAMILIES.flatMap((family) => {
    const sources = addresses.filter((address) => familyOf(address) === family);
    const kept = outermost(networks.filter((network) => cidrFamily(network) === family));
    const { masqueraded, unmasqueraded } = sets[family];
    return [
      { set: masqueraded, elements: sources.map((source) => ({ key: [source], comment })) },
      {
        set: unmasqueraded,
        elements: sources.flatMap((source) => kept.map((network) => ({ key: [source, intervalOf(network)], comment }))),
      },
    ];
  });
}
