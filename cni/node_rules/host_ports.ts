import { TRANSPORTS, type Transport } from "../../kernel/ip/protocol.ts";
import type { PortMapping } from "../../attachment/attachment.ts";
import { type Address, FAMILIES, familiesIn, type Family, familyOf } from "../../kernel/ip/address.ts";
import { type Cidr, cidrFamily, outermost } from "../../kernel/ip/cidr.ts";
import { LINK_LOCAL } from "../../kernel/ip/special.ts";
import { concatenation, lookup } from "../../kernel/nftables/model/expression.ts";
import { familyWords } from "../../kernel/nftables/model/family_words.ts";
import type { Chain, Element, SetDefinition } from "../../kernel/nftables/model/object.ts";
import {
  anyFlag,
  equals,
  goTo,
  inPrefix,
  inSet,
  returnToCaller,
  type Rule,
  rule,
  type Statement,
} from "../../kernel/nftables/model/statement.ts";
import { ClaimIndex } from "../../attachment/claim_index.ts";
import { type HostPortClaim, claimsOf } from "../../attachment/host_port_claim.ts";
import {
  fromLocalhost,
  fromLocalhostChain,
  localhostMasquerade,
  notToLocalhost,
  PUBLISHED,
} from "./localhost_ports.ts";
import { intervalOf, type SetElements } from "./set_elements.ts";

/** The sets and maps that one family's rules use. */
interface FamilySets {
  /** Ports of one address of the node. */
  readonly addressPorts: SetDefinition;
  /** Ports of all addresses of the node. */
  readonly ports: SetDefinition;
  /** The destinations to which `ports` does not apply all the same: Service addresses. */
  readonly exceptions: SetDefinition;
  /** Pairs of source and destination, both the same pod's, whose packets must have the node's address as source. */
  readonly hairpin: SetDefinition;
}

function familySets(family: Family): FamilySets {
  const { type } = familyWords[family];
  const port = ["inet_proto", "inet_service"] as const;
  const target = [type, "inet_service"] as const;
  return {
    addressPorts: { name: `address_ports${family}`, key: [...port, type], data: target },
    ports: { name: `ports${family}`, key: port, data: target },
    exceptions: { name: `exceptions${family}`, key: [...port, type], isInterval: true },
    hairpin: { name: `hairpin${family}`, key: [type, type] },
  };
}

const sets: Readonly<Record<Family, FamilySets>> = { 4: familySets(4), 6: familySets(6) };

/** The sets and maps that the rules of this file use. */
export const hostPortSets: readonly SetDefinition[] = FAMILIES.flatMap((family) => {
  const { addressPorts, ports, exceptions, hairpin } = sets[family];
  return [addressPorts, ports, exceptions, hairpin];
});

const FROM_LINKS = "published_on_links";
const isToNode = equals("fib daddr type", "local");

/** Rules of destination NAT at prerouting. Packets from links never reach a port of localhost (CVE-2020-8558). */
export const hostPortRules: readonly Rule[] = [rule(isToNode, goTo(FROM_LINKS))];

/** Rules of destination NAT at output, for the node's own packets. */
export const hostPortOutputRules: readonly Rule[] = [fromLocalhost, rule(isToNode, goTo(PUBLISHED))];

/**
 * The chains to which {@link hostPortRules} and {@link hostPortOutputRules} send packets for an address of the node.
 */
export const hostPortChains: readonly Chain[] = [
  { name: FROM_LINKS, rules: [...notToLocalhost, rule(goTo(PUBLISHED))] },
  {
    name: PUBLISHED,
    rules: [
      // Sources of packets to link-local addresses are not forwarded: programs that listen there stay reachable.
      rule(inPrefix("ip6 daddr", LINK_LOCAL[6]), returnToCaller),
      ...FAMILIES.flatMap((family) => [
        ...TRANSPORTS.map((protocol) => translation(family, protocol, true)),
        ...TRANSPORTS.map((protocol) =>
          rule(
            inSet(
              concatenation("meta l4proto", `${protocol} dport`, familyWords[family].destination),
              sets[family].exceptions.name,
            ),
            returnToCaller,
          ),
        ),
        ...TRANSPORTS.map((protocol) => translation(family, protocol, false)),
      ]),
    ],
  },
  fromLocalhostChain,
];

/**
 * Rules for postrouting at 100. A pod that reaches itself through the node must see the node's address as the source,
 * since it drops packets from its own address; so must a pod that is reached from localhost.
 */
export const hairpinRules: readonly Rule[] = [
  ...FAMILIES.map((family) =>
    rule(
      anyFlag("ct status", "dnat"),
      inSet(concatenation(familyWords[family].source, familyWords[family].destination), sets[family].hairpin.name),
      { kind: "masquerade" },
    ),
  ),
  ...localhostMasquerade,
];

function translation(family: Family, protocol: Transport, hasAddress: boolean): Rule {
  const port = ["meta l4proto", `${protocol} dport`] as const;
  const key = hasAddress ? concatenation(...port, familyWords[family].destination) : concatenation(...port);
  const map = hasAddress ? sets[family].addressPorts.name : sets[family].ports.name;
  const dnat: Statement = {
    kind: "dnat",
    target: { lookup: lookup(key, map), family: family === 4 ? "ip" : "ip6", hasPort: true },
  };
  return hasAddress ? rule(dnat) : rule(equals("meta nfproto", family === 4 ? "ipv4" : "ipv6"), dnat);
}

/** The published ports of a pod. */
export interface Publication {
  readonly mappings: readonly PortMapping[];
  /** The pod's addresses; the first of each family is where its ports lead. */
  readonly addresses: readonly Address[];
  /** Service addresses: a port on all addresses does not apply to them, even where the node has them. */
  readonly serviceCidrs: readonly Cidr[];
  /** The comment of each element: its owner. */
  readonly comment: string;
}

/** Returns the elements that publish a pod's ports. */
export function hostPortElements({ mappings, addresses, serviceCidrs, comment }: Publication): readonly SetElements[] {
  if (mappings.length === 0) return [];
  return FAMILIES.flatMap((family) => {
    const target = addresses.find((address) => familyOf(address) === family);
    if (target === undefined) return [];
    const claims = mappings.flatMap((mapping) => claimsOf(mapping, [family]));
    const services = outermost(serviceCidrs.filter((cidr) => cidrFamily(cidr) === family)).map(intervalOf);
    const { addressPorts, ports, exceptions, hairpin } = sets[family];
    const ofAll = claims.filter(({ address }) => address === undefined);
    const element = (claim: HostPortClaim): Element => ({
      key: keyOf(claim),
      data: [target, claim.mapping.containerPort],
      comment,
    });
    return [
      { set: addressPorts, elements: claims.filter(({ address }) => address !== undefined).map(element) },
      { set: ports, elements: ofAll.map(element) },
      {
        set: exceptions,
        elements: ofAll.flatMap((claim) => services.map((service) => ({ key: [...keyOf(claim), service], comment }))),
      },
      { set: hairpin, elements: claims.length === 0 ? [] : [{ key: [target, target], comment }] },
    ];
  });
}

function keyOf({ mapping, address }: HostPortClaim): readonly (string | number | bigint)[] {
  const port = [mapping.protocol, mapping.hostPort];
  return address === undefined ? port : [...port, address];
}

/** The maps that are searched for an overlap. */
export const claimSets: readonly SetDefinition[] = FAMILIES.flatMap((family) => [
  sets[family].addressPorts,
  sets[family].ports,
]);

/** A claim that conflicts with an element of another owner. */
export interface Conflict {
  readonly claim: HostPortClaim;
  /** The comment of the holder's element. */
  readonly holder: string | undefined;
}

/**
 * Returns the first of a pod's claims that conflicts with elements of {@link claimSets}. The kernel itself would refuse
 * only equal keys; a port on all addresses and the same port on one address are different keys.
 */
export function findConflict(
  { mappings, addresses }: Pick<Publication, "mappings" | "addresses">,
  present: ReadonlyMap<string, readonly Element[]>,
): Conflict | undefined {
  const families = familiesIn(addresses);
  const holders = new ClaimIndex<Element>();
  for (const family of families) {
    for (const { name } of [sets[family].ports, sets[family].addressPorts]) {
      for (const element of present.get(name) ?? []) {
        const [protocol = "", hostPort = 0, address] = element.key;
        holders.add(family, [protocol, hostPort], address, element);
      }
    }
  }
  for (const claim of mappings.flatMap((mapping) => claimsOf(mapping, families))) {
    const holder = holders.find(claim);
    if (holder !== undefined) return { claim, holder: holder.comment };
  }
  return undefined;
}
