import { FAMILIES, type Family } from "../../../kernel/ip/address.ts";
import { hiding } from "../../../cni/node_rules/masquerade.ts";
import { concatenation } from "../../../kernel/nftables/model/expression.ts";
import type { Chain } from "../../../kernel/nftables/model/object.ts";
import {
  anyFlag,
  equals,
  goTo,
  hasBit,
  inSet,
  jumpTo,
  type Match,
  not,
  type Rule,
  rule,
  setMarkBit,
  type Statement,
} from "../../../kernel/nftables/model/statement.ts";
import type { TablePart } from "../../ruleset/table_part.ts";
import type { ServiceRules } from "./context.ts";
import { drawRules, endpointChain } from "./endpoint_maps.ts";
import { ADDRESS_SETS, type FrontendSet, PROTECTED_SOCKETS } from "./frontend_sets.ts";
import { byAddress, FRONTEND_KINDS, frontendKey, type FrontendKind, nameOf, SPACES, words } from "./frontend_kind.ts";
import { loadNumber, plainMap } from "./number_maps.ts";

/** The chain that replaces the source address of clients of Services. */
export const SERVICES_MASQUERADE = "services_masquerade";

/**
 * Returns the NAT of Services: it chooses the endpoints of a frontend that a packet may go to, and its source address.
 *
 * - Frontends by address come first; those by port only count on the node's own addresses (SVC-18).
 * - At a Service's own address a client is masqueraded unless it is a pod (SVC-13, SVC-14). At an external frontend it
 *   gets the mark, except with policy Local (ETP-01): there pods of this node and the node itself do not count as external
 *   clients and get any endpoint, the node with its own address as the source (ETP-04, ETP-06). All other clients get
 *   endpoints of this node and keep their address (ETP-02).
 * - A pod of this node that an external frontend sends to another pod keeps its address all the same, or policies of the
 *   other node would take it for its node (XIP-02; `portShares` removes the mark once the endpoint is known). So that no
 *   other node hides it either, this node also translates its pods' packets to node ports of other nodes (NODE-12).
 * - A pod of this node that is sent to itself leaves with the bridge's address, or it would answer itself (POD-12).
 */
export function nat({ masqueradeBit }: ServiceRules): TablePart {
  const toServices = FAMILIES.map((family) => rule(ofFamily(family), goTo(`services${family}`)));
  return {
    sets: [],
    chains: [
      ...FRONTEND_KINDS.flatMap((kind) => frontendChains(kind, masqueradeBit)),
      ...FAMILIES.flatMap((family) => [plainChain(family, masqueradeBit), servicesChain(family)]),
      {
        name: SERVICES_MASQUERADE,
        rules: [
          ...hiding(hasBit("meta mark", masqueradeBit)),
          ...FAMILIES.map((family) =>
            rule(
              inSet(concatenation(words[family].source, words[family].destination), `${ADDRESS_SETS.hairpin}${family}`),
              { kind: "masquerade" },
            ),
          ),
        ],
      },
    ],
    shared: {
      nat_prerouting: toServices,
      nat_output: toServices,
      nat_postrouting: [rule(anyFlag("ct status", "dnat"), jumpTo(SERVICES_MASQUERADE))],
    },
  };
}

/** Matches packets of a family; checked once before chains whose lookups are all of one family. */
export function ofFamily(family: Family): Match {
  return equals("meta nfproto", words[family].protocol);
}

/** Matches packets whose destination is a frontend of a set. A port counts only on the node's addresses (NODE-03). */
export function ofFrontend(subject: FrontendSet, kind: FrontendKind): readonly Statement[] {
  const isOne = inSet(frontendKey(kind), nameOf(subject, kind));
  return kind.space === "service" ? [isOne] : [isOne, ...toNodePortAddress(kind.family)];
}

/**
 * Matches packets to a port whose destination is not also a frontend by address, even one without endpoints: frontends
 * by address have precedence (SVC-18). Returns no conditions for frontends by address.
 */
export function atNoAddress({ family, space }: FrontendKind): readonly Statement[] {
  if (space === "service") return [];
  const kind = byAddress(family);
  return (["", "unserved"] as const).map((subject) => not(inSet(frontendKey(kind), nameOf(subject, kind))));
}

/** Matches packets to an address of the node that serves NodePorts, except to sockets that the node depends on. */
export function toNodePortAddress(family: Family): readonly Statement[] {
  return [
    inSet(words[family].destination, `${ADDRESS_SETS.nodePorts}${family}`),
    equals("fib daddr type", "local"),
    toUnprotected(family),
  ];
}

/** Matches packets of this node's pods to node ports of a set at other nodes' addresses. */
export function ofOtherNode(subject: FrontendSet, family: Family): readonly Statement[] {
  const port: FrontendKind = { family, space: "port" };
  return [
    inSet(words[family].destination, `${ADDRESS_SETS.otherNodePorts}${family}`),
    inSet(frontendKey(port), nameOf(subject, port)),
    fromLocalPod(family),
    toUnprotected(family),
    ...atNoAddress(port),
  ];
}

function toUnprotected(family: Family): Match {
  return not(inSet(frontendKey(byAddress(family)), `${PROTECTED_SOCKETS}${family}`));
}

/** Matches packets from a pod of this node. */
export function fromLocalPod(family: Family): ReturnType<typeof inSet> {
  return inSet(words[family].source, `${ADDRESS_SETS.localPods}${family}`);
}

/** Returns the chain that finds the frontend of a packet of a family; the most common kind comes first. */
function servicesChain(family: Family): Chain {
  const plain = byAddress(family);
  const port: FrontendKind = { family, space: "port" };
  return {
    name: `services${family}`,
    rules: [
      rule(loadNumber(plainMap(family), plain), goTo(nameOf("plain", plain))),
      ...SPACES.map((space) => {
        const kind = { family, space };
        return rule(...ofFrontend("", kind), ...atNoAddress(kind), goTo(nameOf("", kind)));
      }),
      // With policy Local, and where no endpoint is known, the other node decides.
      rule(...ofOtherNode("masquerade", family), goTo(nameOf("", port))),
    ],
  };
}

/** Returns the shorter chain for packets to a Service's own address without affinity. */
function plainChain(family: Family, masqueradeBit: number): Chain {
  const kind = byAddress(family);
  return { name: nameOf("plain", kind), rules: [hideOutsiders(family, masqueradeBit), ...drawRules(kind, "all")] };
}

function hideOutsiders(family: Family, masqueradeBit: number): Rule {
  return rule(
    not(inSet(words[family].source, `${ADDRESS_SETS.pods}${family}`)),
    not(fromLocalPod(family)),
    setMarkBit(masqueradeBit),
  );
}

function frontendChains(kind: FrontendKind, masqueradeBit: number): readonly Chain[] {
  const { family, space } = kind;
  const hide = setMarkBit(masqueradeBit);
  const external = nameOf("external", kind);
  const toAll = goTo(endpointChain(kind, "all"));
  // Frontends in neither set of external ones are Services' own addresses.
  const fromOutside = space === "port" ? [] : [hideOutsiders(family, masqueradeBit)];
  return [
    {
      name: nameOf("", kind),
      rules: [
        rule(inSet(frontendKey(kind), nameOf("masquerade", kind)), hide),
        rule(inSet(frontendKey(kind), external), goTo(external)),
        ...fromOutside,
        rule(toAll),
      ],
    },
    {
      name: external,
      rules: [
        rule(fromLocalPod(family), toAll),
        rule(equals("fib saddr type", "local"), hide, toAll),
        rule(goTo(endpointChain(kind, "local"))),
      ],
    },
  ];
}
