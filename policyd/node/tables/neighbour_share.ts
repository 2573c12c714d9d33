import { FAMILIES } from "../../../kernel/ip/address.ts";
import { concatenation } from "../../../kernel/nftables/model/expression.ts";
import { familyWords } from "../../../kernel/nftables/model/family_words.ts";
import {
  dropping,
  equals,
  inSet,
  jumpTo,
  not,
  type RateLimit,
  returnToCaller,
  rule,
} from "../../../kernel/nftables/model/statement.ts";
import type { TablePart } from "../../ruleset/table_part.ts";
import { TUNNEL_NODES } from "./tunnel_guard.ts";
import { DropReason } from "./drop_reasons.ts";

/**
 * Limit on the neighbours that a pod begins to use. The kernel looks for one that does not answer for 3 seconds, so a
 * pod has 30 entries, and 130 at most, of the 1,024 that a family has by default for all network namespaces
 * (gc_thresh3).
 */
const RATE: RateLimit = { kind: "limit", rate: 10, unit: "second", burst: 100, isOver: true };
/** How long a pod may use a neighbour without beginning to use it again. */
const KEPT_MILLISECONDS = 60_000;

/**
 * Returns the part of the inet table that keeps a pod from having the node look for very many neighbours, by packets to
 * many addresses of the node's own links (SHARE-04, RFC 6583). Routers count once however many destinations they lead
 * to, and nodes not at all. Other links than Ethernet, such as WireGuard's, need no neighbours. Only packets that begin a
 * flow out of the bridge are checked, after routing and translation.
 */
export function neighbourShare(bridge: string): TablePart {
  const names = FAMILIES.map((family) => ({
    ...familyWords[family],
    nodes: `${TUNNEL_NODES}${family}`,
    used: `next_hops${family}`,
    begun: `next_hops_begun${family}`,
    chain: `new_next_hop${family}`,
  }));
  return {
    sets: names.flatMap(({ type, used, begun }) => [
      { name: used, key: [type, type], isDynamic: true, timeout: KEPT_MILLISECONDS, size: 65_536 },
      { name: begun, key: [type], isDynamic: true, timeout: KEPT_MILLISECONDS, size: 4096 },
    ]),
    chains: names.map(({ source, nextHop, nodes, used, begun, chain }) => {
      const pair = concatenation(source, nextHop);
      return {
        name: chain,
        rules: [
          rule(inSet(nextHop, nodes), returnToCaller),
          rule(inSet(pair, used), returnToCaller),
          dropping(DropReason.NEIGHBOUR, {
            kind: "dynamic",
            operation: "update",
            set: begun,
            key: source,
            limit: RATE,
          }),
          rule({ kind: "dynamic", operation: "add", set: used, key: pair }),
        ],
      };
    }),
    sharedForNew: {
      filter_forward: names.map(({ protocol, chain }) =>
        rule(
          equals("iifname", bridge),
          not(equals("oifname", bridge)),
          equals("meta oiftype", "ether"),
          equals("meta nfproto", protocol),
          jumpTo(chain),
        ),
      ),
    },
  };
}
