import type { Table, TableReference } from "../../../kernel/nftables/model/object.ts";
import { rule } from "../../../kernel/nftables/model/statement.ts";
import { askerShare } from "./own_ports.ts";
import { attachedAddresses } from "./attached_addresses.ts";
import { bridgePackets } from "./bridge_packets.ts";
import { EARLY_TABLE } from "../../protection/early_table.ts";
import { keptSockets } from "../../protection/nat_exemption.ts";
import { CLOSING_BRIDGE_TABLE, CLOSING_TABLE } from "../../policies/closing/closing_tables.ts";
import { OPENING_TABLE } from "../../policies/cuts/startup_rules.ts";
import { POLICY_TABLE, policyTable } from "../../policies/compile/policy_table.ts";
import { services } from "../../services/rules/services_part.ts";
import { clusterMasquerade } from "../masquerade/cluster_masquerade.ts";
import type { NodeConfiguration } from "./configuration.ts";
import { fragmentShare, REASSEMBLY_SECONDS } from "./fragment_share.ts";
import { relatedPackets } from "./related_packets.ts";
import { guard } from "./guard.ts";
import { neighbourShare } from "./neighbour_share.ts";
import { hostPorts } from "./host_ports.ts";
import { marks } from "./marks.ts";
import { podMasquerade, portShares } from "../masquerade/share_rules.ts";
import { BRIDGE_TABLE, INET_TABLE, joined, type TablePart } from "../../ruleset/table_part.ts";
import { otherTunnels } from "./other_tunnels.ts";
import { serviceLoops } from "./service_loops.ts";
import { hasTunnel, tunnelGuard, tunnelNodes } from "./tunnel_guard.ts";
import type { Configuration } from "../../configuration/configuration.ts";
import { askedPorts } from "../../configuration/own_ports.ts";
import { policyOptions } from "../../policies/compile/options.ts";
import { serviceRules } from "../../services/rules/context.ts";

/**
 * Returns the tables of a node, composed of their parts, without elements and without the chains and sets of policies.
 *
 * They depend only on the configuration, never on objects: hooks that few nodes use (host ports, `ipMasq`, source
 * ranges) are provided while something uses them. Printing or loading a table throws DrawbridgeError ERR_NFTABLES_VALUE
 * when nft could not read back the bridge's name.
 */
export function nodeTables(configuration: NodeConfiguration): readonly Table[] {
  const { bridge, policyOptions: policies, fragmentMemory = 0, askedPorts: asked = [] } = configuration;
  const desired = { mebibytes: fragmentMemory, seconds: REASSEMBLY_SECONDS };
  const { reassembly = { 4: desired, 6: desired } } = configuration;
  return [
    compose(BRIDGE_TABLE, configuration, [guard(configuration)]),
    compose(INET_TABLE, configuration, [
      marks(configuration),
      relatedPackets(bridge),
      bridgePackets(configuration),
      attachedAddresses(bridge),
      ...(fragmentMemory > 0 ? [fragmentShare(bridge, reassembly)] : []),
      ...(asked.length > 0 ? [askerShare(asked)] : []),
      neighbourShare(bridge),
      keptSockets(),
      hostPorts(),
      podMasquerade(),
      portShares(configuration.services === undefined ? undefined : configuration.markBits.masquerade),
      tunnelNodes(),
      ...(hasTunnel(configuration) ? [tunnelGuard(bridge)] : []),
      otherTunnels(bridge),
      ...(configuration.services === undefined
        ? []
        : [serviceLoops(configuration.services.masqueradeBit), ...services(configuration.services)]),
      ...(configuration.masquerade === true ? [clusterMasquerade()] : []),
    ]),
    ...(policies === undefined ? [] : [compose(POLICY_TABLE, configuration, [policyTable({ ...policies, bridge })])]),
  ];
}

function compose(reference: TableReference, { tableOwner }: NodeConfiguration, parts: readonly TablePart[]): Table {
  return Object.freeze({
    ...reference,
    ...(tableOwner ? { isOwned: true } : {}),
    ...joined(parts),
  });
}

/** Returns the tables of a node with this configuration of its daemon, as {@link nodeTables} does. */
export function configuredTables(
  configuration: Configuration & Pick<NodeConfiguration, "reassembly">,
): readonly Table[] {
  return nodeTables({
    ...configuration,
    askedPorts: askedPorts(configuration),
    services: serviceRules(configuration),
    policyOptions: policyOptions(configuration),
  });
}

/** Returns the tables that have no place beside {@link configuredTables}: those of the daemon's start, and of policies. */
export function obsoleteTables({ policies }: Pick<Configuration, "policies">): readonly TableReference[] {
  const ofStart = [EARLY_TABLE, OPENING_TABLE, CLOSING_TABLE, CLOSING_BRIDGE_TABLE];
  return policies ? ofStart : [...ofStart, POLICY_TABLE];
}

/** Returns a table with the rule of the drop log, which is only in chains of policies, for a trial on the kernel. */
export function dropLogTrial({
  dropLog,
  dropLogGroup: group,
}: Pick<Configuration, "dropLog" | "dropLogGroup">): readonly Table[] {
  if (!dropLog) return [];
  const chain = { name: "log", rules: [rule({ kind: "log", prefix: "trial", group, snapLength: 1 })] };
  return [{ ...POLICY_TABLE, sets: [], chains: [chain] }];
}
