import { FAMILIES } from "../../../kernel/ip/address.ts";
import { familyWords } from "../../../kernel/nftables/model/family_words.ts";
import {
  anyFlag,
  dropping,
  equals,
  inSet,
  jumpTo,
  not,
  oneOf,
  rule,
} from "../../../kernel/nftables/model/statement.ts";
import { TUNNEL } from "../../routes/tunnel.ts";
import type { DesiredElement } from "../../ruleset/desired/desired_element.ts";
import { INET_TABLE, type TablePart } from "../../ruleset/table_part.ts";
import { ADDRESS_SETS } from "../../services/rules/frontend_sets.ts";
import { TUNNEL_NODES } from "./tunnel_guard.ts";
import { DropReason } from "./drop_reasons.ts";

/** The ports of tunnels over UDP: VXLAN, Geneve (RFC 8926), and Linux's own of VXLAN, which flannel and k3s use. */
const TUNNEL_PORTS = [TUNNEL.port, 6081, 8472];
/** The set of the ports of UDP tunnels among the node's links. */
const PORTS_OF_LINKS = "tunnel_ports";
/** The protocols of tunnels without ports, the first two of IP in IP and IPv6 in IP. */
const TUNNEL_PROTOCOLS = ["ipencap", "ipv6", "gre", "etherip", "l2tp"];

/**
 * Returns the part of the inet table that keeps pods out of the tunnels of other programs (GUARD-17), such as the
 * overlay of the network add-on before ours. These do not know their senders either: the node takes the packet inside
 * from the tunnel's link, past the guard, with whatever source it has.
 *
 * Packets to a tunnel of a node are dropped if they come from a pod of this node or of another one, or if a Service has
 * sent them there: a node that passes on a packet of a pod may have put its own address in. The pod's own node drops
 * packets to addresses and ports that it knows, and the node that gets the packet all others. Which neighbours may use
 * such a tunnel is for its program to decide.
 */
export function otherTunnels(bridge: string): TablePart {
  const toTunnel = [
    oneOf("udp dport", TUNNEL_PORTS),
    inSet("udp dport", PORTS_OF_LINKS),
    oneOf("meta l4proto", TUNNEL_PROTOCOLS),
  ];
  return {
    sets: [{ name: PORTS_OF_LINKS, key: ["inet_service"] }],
    chains: [
      {
        name: "other_tunnels",
        rules: [
          dropping(DropReason.OTHER_TUNNEL, equals("iifname", bridge)),
          dropping(DropReason.OTHER_TUNNEL, anyFlag("ct status", "dnat")),
          ...FAMILIES.map((family) => {
            const { source } = familyWords[family];
            const isOfPods = inSet(source, `${ADDRESS_SETS.pods}${family}`);
            return dropping(DropReason.OTHER_TUNNEL, isOfPods, not(inSet(source, `${TUNNEL_NODES}${family}`)));
          }),
        ],
      },
      {
        name: "other_tunnels_of_nodes",
        rules: FAMILIES.map((family) =>
          rule(inSet(familyWords[family].destination, `${TUNNEL_NODES}${family}`), jumpTo("other_tunnels")),
        ),
      },
    ],
    sharedForNew: {
      filter_forward: toTunnel.map((match) => rule(match, jumpTo("other_tunnels_of_nodes"))),
      filter_input: toTunnel.map((match) => rule(match, jumpTo("other_tunnels"))),
    },
  };
}

/** Returns the elements for the UDP ports of the node's tunnels. */
export function tunnelPortElements(ports: readonly number[]): readonly DesiredElement[] {
  return ports.map((port) => ({ table: INET_TABLE, set: PORTS_OF_LINKS, element: { key: [port] } }));
}
