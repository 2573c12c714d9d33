import { type Address, parseAddress } from "../../../kernel/ip/address.ts";
import {
  dropping,
  equals,
  jumpTo,
  not,
  oneOf,
  type RateLimit,
  rule,
} from "../../../kernel/nftables/model/statement.ts";
import type { Configuration } from "../../configuration/configuration.ts";
import { DropReason } from "./guard.ts";
import type { TablePart } from "../../ruleset/table_part.ts";

/** Default where policyd serves Services: cloud load balancers probe it (kube-proxy's healthzBindAddress). */
const OF_SERVICES = { address: parseAddress("0.0.0.0"), port: 10_256 };
/** Default where another program serves Services and occupies port 10256. */
export const HEALTH_BESIDE_OTHERS = { address: parseAddress("127.0.0.1"), port: 9874 } as const;

/** Limit on new connections from one source: above any load balancer's probe rate, and low enough to cost nothing. */
const RATE: RateLimit = { kind: "limit", rate: 10, unit: "second", burst: 50, isOver: true };

/** Returns the address and port of the daemon's health server; undefined when it is off. */
export function healthListen({
  healthAddress,
  services,
}: Pick<Configuration, "healthAddress" | "services">):
  | { readonly address: Address; readonly port: number }
  | undefined {
  if (healthAddress === "none") return undefined;
  return healthAddress ?? (services ? OF_SERVICES : HEALTH_BESIDE_OTHERS);
}

/** Returns the daemon's own TCP ports that are reachable from outside the node, in ascending order. */
export function askedPorts(
  configuration: Pick<Configuration, "healthAddress" | "services" | "metricsAddress">,
): readonly number[] {
  const listens = [healthListen(configuration), configuration.metricsAddress];
  return [...new Set(listens.flatMap((listen) => listen?.port ?? []))].toSorted((a, b) => a - b);
}

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
