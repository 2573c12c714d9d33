import { lookup } from "node:dns/promises";
import process from "node:process";
import { localAddresses } from "../../cni/node_rules/stale_flows.ts";
import { deleteFlows } from "../../kernel/conntrack/flow_deletion.ts";
import { tryParseAddress } from "../../kernel/ip/address.ts";
import type { Machine } from "../machine.ts";
import type { Configuration } from "../configuration/configuration.ts";
import { kubeletServer } from "../sources/open.ts";
import { ApiServers } from "./api_servers.ts";
import { configuredSockets } from "./configured_sockets.ts";
import { HostPortRefusals } from "./host_port_refusals.ts";
import { SocketProtection } from "./socket_protection.ts";
import { ProtectedSocketIndex } from "./socket_index.ts";
import { TranslatedFlows } from "./translated_flows.ts";

/** The parts of the daemon that reserve addresses and ports for the programs that nodes depend on. */
export interface OpenedProtection {
  readonly index: ProtectedSocketIndex;
  readonly component: SocketProtection;
  readonly servers: ApiServers;
  readonly hostPorts: HostPortRefusals;
}

/** Creates the parts for the configured sockets, in the network namespace of this thread; nothing runs yet. */
export function openProtection(configuration: Configuration, machine: Machine): OpenedProtection {
  const { syscalls, conntrack, logger, judge } = machine;
  const configured = configuredSockets(configuration);
  const index = new ProtectedSocketIndex(configured, judge);
  const flows = new TranslatedFlows({
    ...machine,
    flows: {
      delete: (asked, isMeant) => deleteFlows(conntrack, asked, isMeant),
      nodeAddresses: () => localAddresses(syscalls),
    },
  });
  const component = new SocketProtection({
    ...machine,
    index,
    flows,
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
    clock: machine.clock,
    protect: (asked) => component.protect(asked),
  });
  return { index, component, servers, hostPorts: new HostPortRefusals(configured.ports, logger, machine.events) };
}
