import { anyFlag, dropping, equals, goTo, not, rule, startsWith } from "../../kernel/nftables/statement.ts";
import type { NodeConfiguration } from "./configuration.ts";
import { HOST_INTERFACE_PREFIX } from "./configuration.ts";
import { DropReason } from "./guard.ts";
import type { TablePart } from "./table_part.ts";

/**
 * The part of the inet table that keeps packets between node and pods on the one way through the bridge.
 *
 * - Before connection tracking, packets of pods' ports: frames to a reserved group address (01:80:c2:00:00:0x) pass no hook of the bridge family on
 *   their way in, and the kernel hands an IP packet in one to the node's IP layer as coming from the port itself
 *   (br_handle_frame). No other packet ever comes from there: those of pods come from the bridge.
 * - After routing, redirects: the kernel tells pods of a shorter way to pods of the same bridge. There is no sysctl against it in
 *   IPv6, and established TCP connections follow it to where {@link guard} lets nothing pass. Those that others send about
 *   a pod's connection go the same way: connection tracking takes them for a part of it (nf_conntrack_inet_error).
 */
export function bridgePackets({ bridge, hostInterfacePrefix = HOST_INTERFACE_PREFIX }: NodeConfiguration): TablePart {
  // Connection tracking takes a redirect for related, invalid or untracked, whichever message it quotes.
  const mayBeRedirect = not(anyFlag("ct state", "new", "established"));
  return {
    sets: [],
    chains: [
      {
        name: "redirects",
        rules: [
          dropping(DropReason.REDIRECT, equals("icmp type", "redirect")),
          dropping(DropReason.REDIRECT, equals("icmpv6 type", "nd-redirect")),
        ],
      },
    ],
    shared: {
      before_reassembly: [dropping(DropReason.PORT, startsWith("iifname", hostInterfacePrefix))],
      after_nat_postrouting: [rule(mayBeRedirect, equals("oifname", bridge), goTo("redirects"))],
    },
  };
}
