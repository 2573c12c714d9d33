import {
  anyFlag,
  dropping,
  equals,
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
import { DropReason } from "./guard.ts";
import { TUNNEL_NODES } from "./tunnel_guard.ts";

const FAMILIES = [4, 6] as const;
const ORIGINAL = { 4: "ct original ip daddr", 6: "ct original ip6 daddr" } as const;

/**
 * Returns the part of the inet table that keeps Services from leading packets in a circle (GUARD-19).
 *
 * Nodes translate packets to node ports, external IPs and load balancers' addresses. An endpoint may be such an address
 * of another node, which is a Service's own business. But when the second node translates the packet to a third one of
 * these, nodes may pass it to one another until its hop limit is used up. The second node knows such a packet by its
 * source, which is a node's since the first one has masqueraded it. Where a node masquerades nothing (policy Local), it
 * is the only one to know, so it lets no packet go from one of these to another at all. Packets to cluster IPs do not
 * count: only pods and the node itself use these. Nor do external IPs that are nodes' own addresses: where the endpoints
 * are programs of these nodes at the same port, as of an ingress controller on the host's network, a packet may well go
 * to another node before it finds one.
 *
 * The sets of Services have to be in the table.
 *
 * @param masqueradeBit the bit of the mark of packets that leave with the node's address
 */
export function serviceLoops(masqueradeBit: number): TablePart {
  return {
    sets: [],
    chains: FAMILIES.map((family) => {
      const { source, destination } = words[family];
      const service = byAddress(family);
      const port: FrontendKind = { family, space: "port" };
      const cluster = `${ADDRESS_SETS.cluster}${family}`;
      const nodes = `${TUNNEL_NODES}${family}`;
      return {
        name: chainOf(family),
        rules: [
          rule(inSet(ORIGINAL[family], cluster), returnToCaller),
          rule(inSet(destination, cluster), returnToCaller),
          rule(hasBit("meta mark", masqueradeBit), not(inSet(source, nodes)), returnToCaller),
          dropping(DropReason.LOOP, inSet(frontendKey(service), nameOf("", service)), not(inSet(destination, nodes))),
          dropping(DropReason.LOOP, inSet(destination, nodes), inSet(frontendKey(port), nameOf("", port))),
        ],
      };
    }),
    sharedForNew: {
      filter_forward: FAMILIES.map((family) =>
        rule(equals("meta nfproto", words[family].protocol), anyFlag("ct status", "dnat"), jumpTo(chainOf(family))),
      ),
    },
  };
}

function chainOf(family: 4 | 6): string {
  return `service_loops${family}`;
}
