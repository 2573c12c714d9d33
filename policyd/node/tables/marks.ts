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
} from "../../../kernel/nftables/model/statement.ts";
import type { NodeConfiguration } from "./configuration.ts";
import type { TablePart } from "../../ruleset/table_part.ts";

/**
 * Returns the part of the inet table that marks the translated packets of the bridge and clears our mark bits again.
 *
 * Where br_netfilter is on, a packet whose destination NAT has changed to another pod of this bridge is bridged to that
 * pod's port, not routed (br_nf_pre_routing_finish). The guard (guard.ts) lets it pass by the bit that is set right
 * after the NAT hook (-100). Where br_netfilter is off, this hook sees no bridged frames, none gets the bit, and
 * translated packets are routed. So nothing depends on the state of that switch.
 *
 * The bit is cleared before it is set, so only NAT can make a frame pass: neither another program's rule that writes
 * whole marks, nor a frame that arrived with a mark. Our bits are removed from packets that leave the node or are
 * delivered to it (sockets may take over a mark, net.ipv4.tcp_fwmark_accept), and no other bit is changed.
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
        // Ends the chain for most packets, which need no other rule of it.
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
