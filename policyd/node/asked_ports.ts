import { parseAddress } from "../../kernel/ip/address.ts";
import type { Address } from "../../kernel/ip/address.ts";
import type { RateLimit } from "../../kernel/nftables/statement.ts";
import { dropping, equals, jumpTo, not, oneOf, rule } from "../../kernel/nftables/statement.ts";
import type { Configuration } from "../configuration/configuration.ts";
import { DropReason } from "./guard.ts";
import type { TablePart } from "./table_part.ts";

/** Of the cloud's load balancers (kube-proxy's healthzBindAddress). */
const OF_SERVICES = { address: parseAddress("0.0.0.0"), port: 10_256 };
/** Where another program serves Services, which then has 10256. */
export const HEALTH_BESIDE_OTHERS = { address: parseAddress("127.0.0.1"), port: 9874 } as const;

/** New connections of one source: more than any balancer's probe makes, and few enough to cost nothing. */
const RATE: RateLimit = { kind: "limit", rate: 10, unit: "second", burst: 50, isOver: true };

/** Where the daemon's health is served; undefined for nowhere. */
export function healthListen({
  healthAddress,
  services,
}: Pick<Configuration, "healthAddress" | "services">):
  | { readonly address: Address; readonly port: number }
  | undefined {
  if (healthAddress === "none") return undefined;
  return healthAddress ?? (services ? OF_SERVICES : HEALTH_BESIDE_OTHERS);
}

/** The TCP ports of the daemon's own that others than the node may reach, in order. */
export function askedPorts(
  configuration: Pick<Configuration, "healthAddress" | "services" | "metricsAddress">,
): readonly number[] {
  const listens = [healthListen(configuration), configuration.metricsAddress];
  return [...new Set(listens.flatMap((listen) => listen?.port ?? []))].toSorted((a, b) => a - b);
}

/**
 * The part of the inet table that bounds how often one source connects to the daemon's own ports: each connection costs the
 * daemon's only thread time and memory. Those of the node itself, the kubelet's probes among them, are not counted.
 *
 * Only what begins a flow to the node itself pays for it.
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
