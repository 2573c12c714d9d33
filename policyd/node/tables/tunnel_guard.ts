import { type Address, familyOf, FAMILIES } from "../../../kernel/ip/address.ts";
import type { AddressRange } from "../../../kernel/ip/ranges.ts";
import { familyWords } from "../../../kernel/nftables/model/family_words.ts";
import {
  anyFlag,
  dropping,
  equals,
  inSet,
  jumpTo,
  type Match,
  not,
  type Rule,
  rule,
} from "../../../kernel/nftables/model/statement.ts";
import type { SetDefinition } from "../../../kernel/nftables/model/object.ts";
import type { DesiredElement } from "../../ruleset/desired/desired_element.ts";
import { TUNNEL } from "../../routes/tunnel.ts";
import { ADDRESS_SETS } from "../../services/rules/frontend_sets.ts";
import type { NodeConfiguration } from "./configuration.ts";
import { INET_TABLE, type TablePart } from "../../ruleset/table_part.ts";
import { DropReason } from "./drop_reasons.ts";

/** The set names, without the digit of the family. */
const SETS = {
  /** The ends of the tunnel: the nodes' InternalIPs. */
  peers: "tunnel_peers",
  /** All known addresses of nodes: their InternalIPs and ExternalIPs, and those that their pod CIDRs imply. */
  nodes: "tunnel_nodes",
  /** The networks of pods of all nodes, with the addresses of the nodes' bridges. */
  pods: ADDRESS_SETS.pods,
} as const;
/** The set of {@link tunnelNodes} with nodes' addresses, without the digit of the family. */
export const TUNNEL_NODES = SETS.nodes;

/** The addresses of a node. */
export interface TunnelEnd {
  readonly internal: readonly Address[];
  readonly external: readonly Address[];
  /** Addresses of the node that its pod CIDRs imply. */
  readonly implied: readonly Address[];
}

/**
 * Returns the part of the inet table that lets only nodes use the tunnel between them (GUARD-09). VXLAN has no
 * authentication (RFC 7348, section 7): a datagram to its port delivers a packet past the guard, from any source
 * address.
 *
 * - `tunnel_from_pods` drops packets to that port of a node when they come from a pod or NAT has redirected them there:
 *   source NAT may give both this node's address, so the other node would take them for tunnel packets of this node.
 * - `tunnel_to_node` drops packets from pods, and all that do not go from a Node's address to a Node's address. The
 *   second half covers addresses in no Node object, which `tunnel_from_pods` does not recognise as a node's.
 *
 * Fragments are reassembled before these hooks, since rules of these tables track connections (nf_defrag_ipv4).
 *
 * Only packets that may start a flow are checked. A reply to a client of this node or of a pod whose source port is
 * VXLAN's goes to a socket that asked for it; where the tunnel owns the port, no such client can exist. A tunnel never
 * replies to the source port of a packet, so connection tracking sees all its packets as new. Untracked packets
 * (`notrack`) are checked.
 */
export function tunnelGuard(bridge: string): TablePart {
  const isTunnel = equals("udp dport", TUNNEL.port);
  const dropped = (...conditions: readonly Match[]): Rule => dropping(DropReason.TUNNEL, ...conditions);
  const fromPods = equals("iifname", bridge);
  return {
    sets: setsNamed(SETS.peers),
    chains: [
      {
        name: "tunnel_from_pods",
        rules: FAMILIES.flatMap((family) => {
          const toNode = inSet(familyWords[family].destination, `${SETS.nodes}${family}`);
          return [dropped(fromPods, toNode), dropped(anyFlag("ct status", "dnat"), toNode)];
        }),
      },
      {
        name: "tunnel_to_node",
        rules: [
          dropped(fromPods),
          ...FAMILIES.flatMap((family) => {
            const { source, destination } = familyWords[family];
            return [source, destination].map((field) => dropped(not(inSet(field, `${SETS.peers}${family}`))));
          }),
        ],
      },
    ],
    sharedForNew: {
      filter_forward: [rule(isTunnel, jumpTo("tunnel_from_pods"))],
      filter_input: [rule(isTunnel, jumpTo("tunnel_to_node"))],
    },
  };
}

/** Returns the part of the inet table with the addresses of nodes and the networks of pods, which other parts use. */
export function tunnelNodes(): TablePart {
  const networks = setsNamed(SETS.pods).map((set) => ({ ...set, isInterval: true }));
  return { sets: [...setsNamed(SETS.nodes), ...networks], chains: [] };
}

/** Matches packets to a pod on any node: to an address of the pods' networks that does not belong to a node. */
export function toPod(family: 4 | 6): readonly Match[] {
  const { destination } = familyWords[family];
  return [inSet(destination, `${SETS.pods}${family}`), not(inSet(destination, `${SETS.nodes}${family}`))];
}

/** Returns the element for a range of the cluster's pods: Services see the address of clients in it (SVC-13). */
export function podRangeElement(range: AddressRange): DesiredElement {
  return { table: INET_TABLE, set: `${SETS.pods}${familyOf(range.first)}`, element: { key: [range] } };
}

function setsNamed(name: string): readonly SetDefinition[] {
  return FAMILIES.map((family) => ({ name: `${name}${family}`, key: [familyWords[family].type] }));
}

/** Returns whether there may be a tunnel, which needs the part {@link tunnelGuard}. */
export function hasTunnel({ encapsulation }: Pick<NodeConfiguration, "encapsulation">): boolean {
  return encapsulation !== undefined && encapsulation !== "never";
}

/** Returns the elements that a node contributes. @param isTunnel whether there may be a tunnel of our own */
export function tunnelEndElements(
  { internal, external, implied }: TunnelEnd,
  isTunnel: boolean,
): readonly DesiredElement[] {
  const claims = (set: string, addresses: readonly Address[]): readonly DesiredElement[] =>
    [...new Set(addresses)].map((address) => ({
      table: INET_TABLE,
      set: `${set}${familyOf(address)}`,
      element: { key: [address] },
    }));
  return [
    ...(isTunnel ? claims(SETS.peers, internal) : []),
    ...claims(SETS.nodes, [...internal, ...external, ...implied]),
  ];
}
