import { lookup } from "node:dns/promises";
import process from "node:process";
import { localAddresses } from "../../cni/node_rules/stale_flows.ts";
import { deleteFlows } from "../../kernel/conntrack/flow_deletion.ts";
import { ConntrackSockets, type FlowCalls } from "../../kernel/conntrack/sockets.ts";
import { tryParseAddress } from "../../kernel/ip/address.ts";
import type { Nftables } from "../../kernel/nftables/socket.ts";
import type { Clock } from "../lib/clock.ts";
import type { NodeJudge } from "../../objects/nodes/node_judge.ts";
import type { Configuration } from "../configuration/configuration.ts";
import type { Ruleset } from "../ruleset/ruleset.ts";
import type { NoticeSink } from "../events/notice.ts";
import type { Logger } from "../log/logger.ts";
import { kubeletServer } from "../sources/open.ts";
import { ApiServers } from "./api_servers.ts";
import { configuredSockets } from "./configured_sockets.ts";
import { EarlyTable } from "./early_table.ts";
import { HostPortRefusals } from "./host_port_refusals.ts";
import { SocketProtection } from "./socket_protection.ts";
import { ProtectedSocketIndex } from "./socket_index.ts";
import { TranslatedFlows } from "./translated_flows.ts";

/** The parts of the machine that {@link openProtection} needs. */
export interface ProtectionMachine {
  readonly syscalls: FlowCalls;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly clusterEvents: NoticeSink;
  readonly judge: NodeJudge;
  readonly ruleset: Ruleset;
  readonly kernel: Pick<Nftables, "head">;
}

/** The parts of the daemon that reserve addresses and ports for the programs that nodes depend on. */
export interface OpenedProtection {
  readonly index: ProtectedSocketIndex;
  readonly component: SocketProtection;
  readonly servers: ApiServers;
  readonly hostPorts: HostPortRefusals;
}

/** Creates the parts for the configured sockets, in the network namespace of this thread; nothing runs yet. */
export function openProtection(configuration: Configuration, machine: ProtectionMachine): OpenedProtection {
  const { syscalls, clock, logger, clusterEvents, judge, ruleset, kernel } = machine;
  const configured = configuredSockets(configuration);
  const index = new ProtectedSocketIndex(configured, judge, configuration.podCIDRs);
  const sockets = new ConntrackSockets(syscalls);
  const flows = new TranslatedFlows({
    flows: {
      delete: (asked, isMeant) => deleteFlows(sockets, asked, isMeant),
      nodeAddresses: () => localAddresses(syscalls),
    },
    clock,
    logger,
  });
  const component = new SocketProtection({
    index,
    ruleset,
    early: new EarlyTable(kernel, ruleset),
    flows,
    logger,
    ports: configured.ports,
    variable: tryParseAddress(process.env["KUBERNETES_SERVICE_HOST"] ?? ""),
    serviceCidrs: configuration.serviceCIDRs,
  });
  const servers = new ApiServers({
    others: () => {
      const url = kubeletServer(configuration, syscalls);
      return url === undefined ? [] : [url];
    },
    resolve: async (name) => {
      const found = await lookup(name, { all: true });
      return found.flatMap(({ address }) => tryParseAddress(address) ?? []);
    },
    clock,
    protect: (asked) => component.protect(asked),
  });
  return { index, component, servers, hostPorts: new HostPortRefusals(configured.ports, logger, clusterEvents) };
}
