import {
  dropping,
  equals,
  jumpTo,
  not,
  oneOf,
  type RateLimit,
  rule,
} from "../../../kernel/nftables/model/statement.ts";
import type { TablePart } from "../../ruleset/table_part.ts";
import { DropReason } from "./drop_reasons.ts";

/** Limit on new connections from one source: above any load balancer's probe rate, and low enough to cost nothing. */
const RATE: RateLimit = { kind: "limit", rate: 10, unit: "second", burst: 50, isOver: true };

/**
 * Returns the part of the inet table that limits how often one source connects to the daemon's own ports, since each
 * connection costs time and memory of the daemon's only thread. Connections from the node itself, such as the kubelet's
 * probes, are not counted. Only packets that start a flow to the node are checked.
 */
export function askerShare(ports: readonly number[]): TablePart {
  const families = [
    { set: "askers4", type: "ipv4_addr", source: "ip saddr" },
    { set: "askers6", type: "ipv6_addr", source: "ip6 saddr" },
  ] as const;
  return {
    sets: families.map(({ set, type }) => ({ name: set, key: [type], isDynamic: true, timeout: 60_000, size: 4096 })),
    chains: [
      {
        name: "asked",
        rules: families.map(({ set, source }) =>
          dropping(DropReason.ASKED, { kind: "dynamic", operation: "update", set, key: source, limit: RATE }),
        ),
      },
    ],
    sharedForNew: {
      filter_input: [rule(not(equals("iifname", "lo")), oneOf("tcp dport", ports), jumpTo("asked"))],
    },
  };
}
