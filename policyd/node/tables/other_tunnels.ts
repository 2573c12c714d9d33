import { familyWords } from "../../../kernel/nftables/model/family_words.ts";
import { dropping, equals, inSet, jumpTo, oneOf, rule } from "../../../kernel/nftables/model/statement.ts";
import { TUNNEL } from "../../routes/tunnel.ts";
import type { TablePart } from "../../ruleset/table_part.ts";
import { DropReason } from "./guard.ts";
import { TUNNEL_NODES } from "./tunnel_guard.ts";

const FAMILIES = [4, 6] as const;

/** The ports of tunnels over UDP: VXLAN, Geneve (RFC 8926), and Linux's own of VXLAN, which flannel and k3s use. */
const TUNNEL_PORTS = [TUNNEL.port, 6081, 8472];
/** The protocols of tunnels without ports, the first two of IP in IP and IPv6 in IP. */
const TUNNEL_PROTOCOLS = ["ipencap", "ipv6", "gre", "etherip", "l2tp"];

/**
 * Returns the part of the inet table that keeps pods out of the tunnels of other programs (GUARD-17), such as the
 * overlay of the network add-on before ours. These do not know their senders either: the node takes the packet inside
 * from the tunnel's link, past the guard, with whatever source it has.
 *
 * Packets of pods to an address of a node are dropped, also those that a Service has sent there. Which neighbours may
 * use such a tunnel is for its program to decide.
 */
export function otherTunnels(bridge: string): TablePart {
  const toTunnel = [oneOf("udp dport", TUNNEL_PORTS), oneOf("meta l4proto", TUNNEL_PROTOCOLS)];
  const fromPods = equals("iifname", bridge);
  const drop = dropping(DropReason.OTHER_TUNNEL);
  return {
    sets: [],
    chains: [
      { name: "other_tunnels", rules: [drop] },
      {
        name: "other_tunnels_of_nodes",
        rules: FAMILIES.map((family) =>
          rule(inSet(familyWords[family].destination, `${TUNNEL_NODES}${family}`), jumpTo("other_tunnels")),
        ),
      },
    ],
    sharedForNew: {
      filter_forward: toTunnel.map((match) => rule(fromPods, match, jumpTo("other_tunnels_of_nodes"))),
      filter_input: toTunnel.map((match) => rule(fromPods, match, jumpTo("other_tunnels"))),
    },
  };
}
