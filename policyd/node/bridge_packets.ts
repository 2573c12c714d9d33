import { dropping, equals, startsWith } from "../../kernel/nftables/statement.ts";
import type { NodeConfiguration } from "./configuration.ts";
import { HOST_INTERFACE_PREFIX } from "./configuration.ts";
import { DropReason } from "./guard.ts";
import type { TablePart } from "./table_part.ts";

/**
 * The part of the inet table that keeps packets between node and pods on the one way through the bridge.
 *
 * - `drop_port_packets`: frames to a reserved group address (01:80:c2:00:00:0x) pass no hook of the bridge family on
 *   their way in, and the kernel hands an IP packet in one to the node's IP layer as coming from the port itself
 *   (br_handle_frame). No other packet ever comes from there: those of pods come from the bridge.
 * - `drop_redirects`: the kernel tells pods of a shorter way to pods of the same bridge. There is no sysctl against it in
 *   IPv6, and established TCP connections follow it to where {@link guard} lets nothing pass. Those that others send about
 *   a pod's connection go the same way: connection tracking takes them for a part of it (nf_conntrack_inet_error).
 */
export function bridgePackets({ bridge, hostInterfacePrefix = HOST_INTERFACE_PREFIX }: NodeConfiguration): TablePart {
  const toBridge = equals("oifname", bridge);
  return {
    sets: [],
    chains: [
      {
        name: "drop_port_packets",
        base: { type: "filter", hook: "prerouting", priority: -300, policy: "accept" },
        rules: [dropping(DropReason.PORT, startsWith("iifname", hostInterfacePrefix))],
      },
      {
        name: "drop_redirects",
        base: { type: "filter", hook: "postrouting", priority: -300, policy: "accept" },
        rules: [
          dropping(DropReason.REDIRECT, toBridge, equals("icmp type", "redirect")),
          dropping(DropReason.REDIRECT, toBridge, equals("icmpv6 type", "nd-redirect")),
        ],
      },
    ],
  };
}
