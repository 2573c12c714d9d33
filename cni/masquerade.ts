import type { Address, Family } from "../kernel/ip/address.ts";
import { familyOf } from "../kernel/ip/address.ts";
import type { Cidr } from "../kernel/ip/cidr.ts";
import { cidrFamily, parseCidr } from "../kernel/ip/cidr.ts";
import { concatenation } from "../kernel/nftables/expression.ts";
import { familyWords } from "../kernel/nftables/family_words.ts";
import type { SetDefinition } from "../kernel/nftables/object.ts";
import type { Rule, Statement } from "../kernel/nftables/statement.ts";
import { inPrefix, inSet, not, oneOf, rule } from "../kernel/nftables/statement.ts";
import type { SetElements } from "./set_elements.ts";
import { intervalOf, outermost } from "./set_elements.ts";

interface FamilySets {
  /** Pods whose traffic leaves with the node's address. */
  readonly masqueraded: SetDefinition;
  /** Pod and destination: where it keeps the pod's. */
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
const multicast = { 4: parseCidr("224.0.0.0/4"), 6: parseCidr("ff00::/8") } as const;

/** The sets the rules of this file look into. */
export const masqueradeSets: readonly SetDefinition[] = ([4, 6] as const).flatMap((family) => {
  const { masqueraded, unmasqueraded } = sets[family];
  return [masqueraded, unmasqueraded];
});

/** The ports above those of nodes' services: system ports, those of the kubelet and of tunnels, and NodePorts. */
const HIDDEN_PORTS = { first: 32_768, last: 65_535 } as const;
const hasPorts = oneOf("meta l4proto", ["tcp", "udp", "sctp"]);

/**
 * Returns the rules that give a packet the node's address where all conditions hold.
 *
 * A packet that comes to the node from the socket to which a hidden flow goes, and to the port of that flow, is an answer to
 * it: so a flow with the port of a node's service takes the packets that are for this service ("port shadowing", CVE-2021-3773). The
 * kernel would choose among all ports from 1024 on, and for a flow from a port below 512 among those below 512
 * (nf_nat_l4proto_unique_tuple), by which 511 flows have them all. Fully random ports: many pods behind one address collide less often.
 */
export function hiding(...conditions: readonly Statement[]): readonly Rule[] {
  return [
    rule(...conditions, hasPorts, { kind: "masquerade", isFullyRandom: true, ports: HIDDEN_PORTS }),
    rule(...conditions, { kind: "masquerade", isFullyRandom: true }),
  ];
}

/** Returns the conditions that a packet of a pod meets when it leaves with the node's address. */
export function masqueradeConditions(family: Family): readonly Statement[] {
  const { source, destination } = familyWords[family];
  return [
    inSet(source, sets[family].masqueraded.name),
    not(inPrefix(destination, multicast[family])),
    not(inSet(concatenation(source, destination), sets[family].unmasqueraded.name)),
  ];
}

/** Rules for postrouting at 100. */
export const masqueradeRules: readonly Rule[] = ([4, 6] as const).flatMap((family) =>
  hiding(...masqueradeConditions(family)),
);

/**
 * The elements that masquerade what a pod sends.
 *
 * @param networks where the source is kept
 * @param comment of each element: whose it is
 */
export function masqueradeElements(
  addresses: readonly Address[],
  networks: readonly Cidr[],
  comment: string,
): readonly SetElements[] {
  return ([4, 6] as const).flatMap((family) => {
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
