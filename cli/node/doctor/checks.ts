import { addresses, attachments, daemon, networkConfiguration, plugins } from "./checks/files.ts";
import { formerPlugin } from "./checks/former_plugin.ts";
import { directRoutes, mtu, nodeState } from "./checks/network.ts";
import { foreignDrops, marks, priorities, tables } from "./checks/rules.ts";
import { probe } from "./checks/probe.ts";
import { podNetworks } from "./checks/pod_networks.ts";
import { EXAMINED_CHECKS } from "../../../policyd/checks/examination.ts";
import * as settings from "./checks/settings.ts";
import type { Check } from "./facts.ts";

/** All checks, in the order in which they run. */
export const CHECKS: readonly Check[] = [
  EXAMINED_CHECKS["kernel-version"],
  EXAMINED_CHECKS["kernel-features"],
  settings.checksumFilter,
  EXAMINED_CHECKS.clock,
  settings.ipv6,
  settings.forwarding,
  settings.reversePath,
  settings.redirects,
  settings.localhost,
  settings.bridgeNetfilter,
  settings.fragments,
  EXAMINED_CHECKS.conntrack,
  daemon,
  tables,
  foreignDrops,
  probe,
  EXAMINED_CHECKS["kube-proxy"],
  priorities,
  marks,
  nodeState,
  podNetworks,
  formerPlugin,
  directRoutes,
  EXAMINED_CHECKS.tunnel,
  mtu,
  networkConfiguration,
  plugins,
  attachments,
  addresses,
];
