import { concatenation } from "../../kernel/nftables/expression.ts";
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
} from "../../kernel/nftables/statement.ts";
import type { NodeConfiguration } from "./configuration.ts";
import { HOST_INTERFACE_PREFIX } from "./configuration.ts";
import type { TablePart } from "./table_part.ts";

/** The guard's sets: which source belongs to which port. Attachments fill them. */
export const GUARD_SETS = {
  ipv4: { name: "pod4", key: ["ifname", "ether_addr", "ipv4_addr"] },
  ipv6: { name: "pod6", key: ["ifname", "ether_addr", "ipv6_addr"] },
  mac: { name: "podmac", key: ["ifname", "ether_addr"] },
} as const;

/** The comments of the rules that drop, by which people and metrics tell their counters apart. */
export const DropReason = {
  PROTOCOL: "tagged or neither IP nor ARP",
  SOURCE: "source not of the pod",
  LINK: "from pod to pod on the link",
  PORT: "IP outside of the bridge",
  FRAGMENT: "fragments beyond the share of a pod",
  ASKED: "connections to the daemon beyond the share of a source",
  REDIRECT: "redirect to a pod",
  TUNNEL: "tunnel packet not from node to node",
  QUERY: "multicast query of a pod",
} as const satisfies Readonly<Record<string, string>>;

/**
 * The part of the bridge table that keeps pods to their own addresses and away from each other's links.
 *
 * `prerouting` at -300 comes before br_netfilter's connection tracking (priority 0 of this family) and before the
 * bridge learns the frame's source, and sees every frame whether br_netfilter is on or off; those to reserved group
 * addresses since the plugin sets the port so (cni/wiring.ts). Only a frame of a pod's port is judged, by the port, the
 * source MAC and the source address together:
 *
 * - Tagged frames are none a pod needs; the payload at the place of the type is the tag, also where the kernel has moved
 *   it out of the frame, so one test refuses them with EAPOL, LLDP and everything else.
 * - Of ARP both the frame's and the packet's own source are looked at: the first is what the bridge learns.
 * - From `::` only what a host without an address has to say: duplicate address detection and multicast reports.
 *   0.0.0.0 needs nobody, since pods get addresses from the plugin.
 * - The target of a neighbour advertisement is judged later ({@link relatedPackets}): such a frame may go around the bridge.
 *
 * `multicast` keeps pods from asking who listens to which groups (ENDS-05). By one query the bridge takes a pod for the link's
 * querier (br_multicast_query_received), and from then on sends the node's multicast only to ports whose reports it has heard.
 * Pods never hear that query, so they do not answer it. Of IGMP only reports pass: the bridge looks at what comes in a fragment
 * as well, of which a rule does not see the type (ip_mc_check_igmp). A report concerns the port that it comes from.
 *
 * `forward` at -200 then drops what would go from a pod's port to any other port, unless it is the bridged half of a
 * translated connection (marks.ts): all else takes the node's IP layer, where it is policed (POD-22). Frames to the
 * bridge itself do not pass here.
 */
export function guard({ markBits, hostInterfacePrefix = HOST_INTERFACE_PREFIX }: NodeConfiguration): TablePart {
  const isOthers = not(startsWith("iifname", hostInterfacePrefix));
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
            oneOf("icmpv6 type", ["nd-neighbor-solicit", "mld-listener-report", "mld2-listener-report"]),
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
