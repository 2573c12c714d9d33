import { addresses, attachments, daemon, networkConfiguration, plugins } from "./checks/files.ts";
import { formerPlugin } from "./checks/former_plugin.ts";
import { directRoutes } from "./checks/direct_routes.ts";
import { foreignDrops } from "./checks/firewall.ts";
import { checksumFilter, kernelFeatures, kernelVersion } from "./checks/kernel.ts";
import { mtu, tunnel } from "./checks/network.ts";
import { probe } from "./checks/probe.ts";
import { podNetworks } from "./checks/pod_networks.ts";
import { nodeState } from "./checks/node_state.ts";
import { kubeProxy, marks, priorities, tables } from "./checks/rules.ts";
import * as settings from "./checks/settings.ts";
import type { Check } from "./finding.ts";

/** All checks, in the order in which they run. */
export const CHECKS: readonly Check[] = [
  kernelVersion,
  kernelFeatures,
  checksumFilter,
  settings.clock,
  settings.ipv6,
  settings.forwarding,
  settings.reversePath,
  settings.redirects,
  settings.localhost,
  settings.bridgeNetfilter,
  settings.connectionTracking,
  daemon,
  tables,
  foreignDrops,
  probe,
  kubeProxy,
  priorities,
  marks,
  nodeState,
  podNetworks,
  formerPlugin,
  directRoutes,
  tunnel,
  mtu,
  networkConfiguration,
  plugins,
  attachments,
  addresses,
];
