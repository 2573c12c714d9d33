import {
  accept,
  anyFlag,
  clearMarkBits,
  equals,
  hasBit,
  hasBits,
  not,
  rule,
  setMarkBit,
} from "../../kernel/nftables/statement.ts";
import type { NodeConfiguration } from "./configuration.ts";
import type { TablePart } from "./table_part.ts";

/**
 * The part of the inet table that says which packets of the bridge are translated ones, and takes our bits off again.
 *
 * Where br_netfilter is on, a packet whose destination NAT has changed to another pod of this bridge is bridged to its
 * port, not routed (br_nf_pre_routing_finish); {@link guard} lets it pass by the bit that is set right after the NAT hook
 * (-100). Where br_netfilter is off, this hook does not see bridged frames and none gets the bit, and NATed
 * packets are routed: so nothing has to know or follow the state of that switch.
 *
 * The bit is cleared before it is set, so that nothing but NAT can make a frame pass: neither another's rule that writes
 * whole marks, nor a frame whose mark came from elsewhere. Afterwards nothing of ours stays on what leaves the node or
 * is delivered to it (sockets may take over a mark, net.ipv4.tcp_fwmark_accept), and no bit of others is touched.
 */
export function marks({ bridge, markBits }: NodeConfiguration): TablePart {
  const fromBridge = equals("iifname", bridge);
  const bits = (markBits.masquerade | markBits.bridged) >>> 0;
  const clear = rule(clearMarkBits(bits));
  return {
    sets: [],
    chains: [],
    shared: {
      after_nat_prerouting: [
        // Ends the chain for most packets, which need none of its other rules.
        rule(
          not(hasBit("meta mark", markBits.bridged)),
          anyFlag("ct state", "new", "established"),
          not(anyFlag("ct status", "snat", "dnat")),
          accept,
        ),
        rule(fromBridge, clearMarkBits(markBits.bridged)),
        rule(fromBridge, anyFlag("ct status", "snat", "dnat"), setMarkBit(markBits.bridged)),
      ],
      filter_input: [clear],
      after_nat_postrouting: [
        rule(hasBits("meta mark", bits, 0), anyFlag("ct state", "new", "established"), accept),
        clear,
      ],
    },
  };
}
