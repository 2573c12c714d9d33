import { FAMILIES } from "../../../kernel/ip/address.ts";
import {
  anyFlag,
  dropping,
  hasBit,
  inSet,
  jumpTo,
  not,
  returnToCaller,
  rule,
} from "../../../kernel/nftables/model/statement.ts";
import type { TablePart } from "../../ruleset/table_part.ts";
import { byAddress, frontendKey, type FrontendKind, nameOf, words } from "../../services/rules/frontend_kind.ts";
import { ADDRESS_SETS } from "../../services/rules/frontend_sets.ts";
import { ofFamily } from "../../services/rules/nat_part.ts";
import { TUNNEL_NODES, toPod } from "./tunnel_guard.ts";
import { DropReason } from "./drop_reasons.ts";

/**
 * Returns the part of the inet table that keeps Services from leading packets in a circle (GUARD-19).
 *
 * Nodes translate packets to node ports, external IPs and load balancers' addresses: to external frontends. An endpoint
 * may be an external frontend that another node translates again. If that node's endpoint is a third one, nodes may pass
 * the packet to one another until its hop limit is used up. The second node recognizes such a packet by its source,
 * which is a node's address, because the first node has masqueraded it. With policy Local the first node does not
 * masquerade, and the second one could not recognize the packet. So the first node drops it.
 *
 * A pod that keeps its address is sent to another pod, never to a frontend (XIP-02). Not all addresses of nodes are
 * known, so every address that is not a pod's counts as a node's when the port is a node port's.
 *
 * Packets to cluster IPs pass, because only pods and the node itself use these. Packets to external IPs that are nodes'
 * own addresses pass as well: if the endpoints are programs of these nodes at the same port, as with an ingress
 * controller on the host's network, a connection may visit another node before it finds a program.
 *
 * The sets of Services have to be in the table.
 *
 * @param masqueradeBit the bit of the mark of packets that leave with the node's address
 */
export function serviceLoops(masqueradeBit: number): TablePart {
  return {
    sets: [],
    chains: FAMILIES.map((family) => {
      const { source, destination, originalDestination } = words[family];
      const service = byAddress(family);
      const port: FrontendKind = { family, space: "port" };
      const cluster = `${ADDRESS_SETS.cluster}${family}`;
      const nodes = `${TUNNEL_NODES}${family}`;
      return {
        name: chainOf(family),
        rules: [
          rule(inSet(originalDestination, cluster), returnToCaller),
          rule(inSet(destination, cluster), returnToCaller),
          rule(hasBit("meta mark", masqueradeBit), not(inSet(source, nodes)), returnToCaller),
          dropping(DropReason.LOOP, inSet(frontendKey(service), nameOf("", service)), not(inSet(destination, nodes))),
          rule(...toPod(family), returnToCaller),
          dropping(DropReason.LOOP, inSet(frontendKey(port), nameOf("", port))),
        ],
      };
    }),
    sharedForNew: {
      filter_forward: FAMILIES.map((family) =>
        rule(ofFamily(family), anyFlag("ct status", "dnat"), jumpTo(chainOf(family))),
      ),
    },
  };
}

function chainOf(family: 4 | 6): string {
  return `service_loops${family}`;
}
