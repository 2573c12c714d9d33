import { hideLocalhost, localhostAnswerChains, showLocalhost } from "../../cni/localhost_ports.ts";
import { anyFlag, clearMarkBits, equals, rule, setMarkBit } from "../../kernel/nftables/statement.ts";
import type { NodeConfiguration } from "./configuration.ts";
import type { TablePart } from "./table_part.ts";

/**
 * The part of the inet table that says which packets of the bridge are translated ones, and takes our bits off again.
 *
 * Where br_netfilter is on, a packet whose destination NAT has changed to another pod of this bridge is bridged to its
 * port, not routed (br_nf_pre_routing_finish); {@link guard} lets it pass by the bit that `mark_bridged` sets right after
 * the NAT hook (-100). Where br_netfilter is off, this hook does not see bridged frames and none gets the bit, and NATed
 * packets are routed: so nothing has to know or follow the state of that switch.
 *
 * The bit is cleared before it is set, so that nothing but NAT can make a frame pass: neither another's rule that writes
 * whole marks, nor a frame whose mark came from elsewhere. Afterwards nothing of ours stays on what leaves the node or
 * is delivered to it (sockets may take over a mark, net.ipv4.tcp_fwmark_accept), and no bit of others is touched.
 *
 * Two of the chains also readdress answers to clients on the node's localhost (cni/localhost_ports.ts), so that no packet
 * passes one more chain because of these.
 */
export function marks({ bridge, markBits }: NodeConfiguration): TablePart {
  const fromBridge = equals("iifname", bridge);
  const clear = rule(clearMarkBits((markBits.masquerade | markBits.bridged) >>> 0));
  return {
    sets: [],
    chains: [
      ...localhostAnswerChains,
      {
        name: "mark_bridged",
        base: { type: "filter", hook: "prerouting", priority: -90, policy: "accept" },
        rules: [
          rule(fromBridge, clearMarkBits(markBits.bridged)),
          rule(fromBridge, anyFlag("ct status", "snat", "dnat"), setMarkBit(markBits.bridged), hideLocalhost),
        ],
      },
      {
        name: "clear_marks",
        base: { type: "filter", hook: "postrouting", priority: 110, policy: "accept" },
        rules: [clear],
      },
      {
        name: "clear_marks_input",
        base: { type: "filter", hook: "input", priority: 110, policy: "accept" },
        rules: [clear, showLocalhost],
      },
    ],
  };
}
