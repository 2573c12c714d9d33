import { concatenation } from "../../../kernel/nftables/model/expression.ts";
import {
  accept,
  dropping,
  equals,
  hasBit,
  inSet,
  jumpTo,
  not,
  oneOf,
  returnToCaller,
  rule,
  startsWith,
} from "../../../kernel/nftables/model/statement.ts";
import { HOST_INTERFACE_PREFIX } from "../../../attachment/names_and_macs.ts";
import type { NodeConfiguration } from "./configuration.ts";
import type { TablePart } from "../../ruleset/table_part.ts";
import { DropReason } from "./drop_reasons.ts";

/** The guard's sets, which bind a source to a port. Attachments fill them. */
export const GUARD_SETS = {
  ipv4: { name: "pod4", key: ["ifname", "ether_addr", "ipv4_addr"] },
  ipv6: { name: "pod6", key: ["ifname", "ether_addr", "ipv6_addr"] },
  mac: { name: "podmac", key: ["ifname", "ether_addr"] },
} as const;

/**
 * Returns the part of the bridge table that keeps pods to their own addresses and away from each other's links.
 *
 * `prerouting` at -300 comes before br_netfilter's connection tracking (priority 0 of this family) and before the
 * bridge learns the frame's source. It sees every frame whether br_netfilter is on or off; frames to reserved group
 * addresses arrive here because of a port setting by the plugin (cni/wiring/wiring.ts). Only frames from pods' ports are
 * checked, by the port, the source MAC and the source address together:
 *
 * - No pod needs tagged frames. The rule reads the tag at the place of the type, also where the kernel has moved it out
 *   of the frame, so one test drops them together with EAPOL, LLDP and every other protocol.
 * - For ARP, both the frame's source and the packet's own source are checked: the first is what the bridge learns.
 * - From `::` a host without an address may send only multicast reports. Duplicate address detection is dropped: no
 *   other pod hears it, and the node, where `net.ipv6.conf.all.accept_dad` is on, would give up an address of its own
 *   for which a pod does it. No pod needs 0.0.0.0, since pods get their addresses from the plugin.
 * - The target of a neighbour advertisement is checked later (related_packets.ts): such a frame may bypass the
 *   bridge.
 *
 * `multicast` keeps pods from sending membership queries (ENDS-05). After one query the bridge takes a pod for the
 * link's querier (br_multicast_query_received) and sends the node's multicast only to ports whose reports it has heard.
 * Pods never hear that query, so they do not answer it. Of IGMP only reports pass, because the bridge also parses
 * fragments, whose type a rule does not see (ip_mc_check_igmp). A report concerns only the port it comes from.
 *
 * `forward` at -200 drops frames from a pod's port to any other port, except the bridged half of a translated
 * connection (marks.ts): everything else takes the node's IP layer, where policies apply (POD-22). Frames to the bridge
 * itself do not pass here.
 */
export function guard({ markBits }: NodeConfiguration): TablePart {
  // Ports with other names belong to other programs and are left untouched.
  const isOthers = not(startsWith("iifname", HOST_INTERFACE_PREFIX));
  const hasPodMac = inSet(concatenation("iifname", "ether saddr"), GUARD_SETS.mac.name);
  return {
    sets: Object.values(GUARD_SETS),
    chains: [
      {
        name: "multicast",
        rules: [
          rule(
            equals("meta protocol", "ip"),
            oneOf("igmp type", ["membership-report-v1", "membership-report-v2", "leave-group", "membership-report-v3"]),
            returnToCaller,
          ),
          dropping(DropReason.QUERY, equals("meta l4proto", "igmp")),
          dropping(DropReason.QUERY, equals("icmpv6 type", "mld-listener-query")),
        ],
      },
      {
        name: "prerouting",
        base: { type: "filter", hook: "prerouting", priority: -300, policy: "accept" },
        rules: [
          rule(isOthers, accept),
          dropping(DropReason.PROTOCOL, not(oneOf("ether type", ["ip", "arp", "ip6"]))),
          rule(equals("meta pkttype", "multicast"), jumpTo("multicast")),
          rule(inSet(concatenation("iifname", "ether saddr", "ip saddr"), GUARD_SETS.ipv4.name), accept),
          rule(inSet(concatenation("iifname", "ether saddr", "ip6 saddr"), GUARD_SETS.ipv6.name), accept),
          rule(
            hasPodMac,
            inSet(concatenation("iifname", "arp saddr ether", "arp saddr ip"), GUARD_SETS.ipv4.name),
            accept,
          ),
          rule(
            hasPodMac,
            equals("ip6 saddr", 0n),
            oneOf("icmpv6 type", ["mld-listener-report", "mld2-listener-report"]),
            accept,
          ),
          dropping(DropReason.SOURCE),
        ],
      },
      {
        name: "forward",
        base: { type: "filter", hook: "forward", priority: -200, policy: "accept" },
        rules: [rule(isOthers, accept), rule(hasBit("meta mark", markBits.bridged), accept), dropping(DropReason.LINK)],
      },
    ],
  };
}
