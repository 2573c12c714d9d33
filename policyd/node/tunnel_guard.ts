import type { Address } from "../../kernel/ip/address.ts";
import { familyOf } from "../../kernel/ip/address.ts";
import { familyWords } from "../../kernel/nftables/family_words.ts";
import type { Match, Rule } from "../../kernel/nftables/statement.ts";
import { anyFlag, dropping, equals, inSet, jumpTo, not, rule } from "../../kernel/nftables/statement.ts";
import type { Claim } from "../dataplane/claim.ts";
import { TUNNEL } from "../routes/names.ts";
import type { NodeConfiguration } from "./configuration.ts";
import { DropReason } from "./guard.ts";
import type { TablePart } from "./table_part.ts";
import { INET_TABLE } from "./table_part.ts";

const FAMILIES = [4, 6] as const;

/** Sets by these names and the family's number. */
const SETS = {
  /** Between which the tunnel goes: the nodes' InternalIPs. */
  peers: "tunnel_peers",
  /** By which nodes are reached: these and their ExternalIPs. */
  nodes: "tunnel_nodes",
} as const;

/** A node's addresses, as far as its Node object has them. */
export interface TunnelEnd {
  readonly internal: readonly Address[];
  readonly external: readonly Address[];
}

/**
 * The part of the inet table that keeps the tunnel between nodes to nodes (GUARD-09). VXLAN has no authentication (RFC 7348,
 * section 7): whoever gets a datagram to its port has a packet delivered behind the guard, from any address.
 *
 * - `tunnel_from_pods`: nothing from a pod leaves for that port of a node, nor what NAT has sent there: source NAT may give both
 *   this node's address, by which the other node would take them for its own.
 * - `tunnel_to_node`: nothing from a pod is taken, and nothing but from a Node's address to a Node's address. The second half is
 *   for addresses that no Node object has, at which `tunnel_from_pods` knows no node.
 *
 * Fragments are put together before these hooks, since rules of these tables track connections (nf_defrag_ipv4).
 *
 * Only a packet that may begin a flow is judged. A reply to a client of this node or of a pod whose source port is VXLAN's
 * goes to a socket that asked for it; where the tunnel owns the port, no such client can exist. A tunnel never answers to the
 * port that a packet came from, so all of its packets are new to connection tracking. Untracked packets (`notrack`) are judged.
 */
export function tunnelGuard(bridge: string): TablePart {
  const isTunnel = equals("udp dport", TUNNEL.port);
  const dropped = (...conditions: readonly Match[]): Rule => dropping(DropReason.TUNNEL, ...conditions);
  const fromPods = equals("iifname", bridge);
  return {
    sets: FAMILIES.flatMap((family) =>
      Object.values(SETS).map((name) => ({ name: `${name}${family}`, key: [familyWords[family].type] })),
    ),
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

/** Whether there may be a tunnel, and so the part {@link tunnelGuard}. */
export function hasTunnel({ encapsulation }: Pick<NodeConfiguration, "encapsulation">): boolean {
  return encapsulation !== undefined && encapsulation !== "never";
}

/** What a node contributes. */
export function tunnelEndElements({ internal, external }: TunnelEnd): readonly Claim[] {
  const claims = (set: string, addresses: readonly Address[]): readonly Claim[] =>
    [...new Set(addresses)].map((address) => ({
      table: INET_TABLE,
      set: `${set}${familyOf(address)}`,
      element: { key: [address] },
    }));
  return [...claims(SETS.peers, internal), ...claims(SETS.nodes, [...internal, ...external])];
}
