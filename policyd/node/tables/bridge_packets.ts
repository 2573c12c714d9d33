import { anyFlag, dropping, equals, goTo, not, rule, startsWith } from "../../../kernel/nftables/model/statement.ts";
import { HOST_INTERFACE_PREFIX } from "../../../attachment/names_and_macs.ts";
import type { NodeConfiguration } from "./configuration.ts";
import type { TablePart } from "../../ruleset/table_part.ts";
import { DropReason } from "./drop_reasons.ts";

/**
 * Returns the part of the inet table that drops packets between node and pods that do not take the way through the
 * bridge.
 *
 * - Before connection tracking it drops packets that arrive from a pod's port instead of the bridge. Frames to a
 *   reserved group address (01:80:c2:00:00:0x) pass no hook of the bridge family on their way in, and the kernel hands
 *   an IP packet in one to the node's IP layer as coming from the port itself (br_handle_frame). All other packets of
 *   pods arrive from the bridge.
 * - After routing it drops redirects to pods: the kernel would tell pods of a shorter way to pods of the same bridge.
 *   IPv6 has no sysctl against it, and established TCP connections would follow the redirect to where the guard
 *   (guard.ts) lets nothing pass. Redirects that others send about a pod's connection are dropped too: connection
 *   tracking takes them for a part of that connection (nf_conntrack_inet_error).
 */
export function bridgePackets({ bridge }: NodeConfiguration): TablePart {
  // Connection tracking classifies a redirect as related, invalid or untracked, whichever message it quotes.
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
      before_reassembly: [dropping(DropReason.PORT, startsWith("iifname", HOST_INTERFACE_PREFIX))],
      after_nat_postrouting: [rule(mayBeRedirect, equals("oifname", bridge), goTo("redirects"))],
    },
  };
}
