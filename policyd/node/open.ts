import { randomInt } from "node:crypto";
import { totalmem } from "node:os";
import { systemFileSystem } from "../../ipam/file_system.ts";
import type { KernelEvents } from "../../kernel/events/events.ts";
import { startEventThread } from "../../kernel/events/thread.ts";
import { NftablesSocket } from "../../kernel/nftables/socket.ts";
import type { nodeSyscalls } from "../../kernel/syscall/koffi.ts";
import { LinkRemoval } from "../attachments/link_removal.ts";
import { LinkSockets } from "../attachments/link_sockets.ts";
import { endBypass } from "../attachments/bypass_end.ts";
import { markFiles } from "../attachments/ended_marks.ts";
import { EndedSandboxes } from "../attachments/ended_sandboxes.ts";
import { hasLink, isPresent } from "../attachments/attachment_exists.ts";
import { attachmentKey, type AttachmentRegistry, type RecordPlace } from "../attachments/registry.ts";
import type { Clock } from "../lib/clock.ts";
import { openCoexistence } from "../coexistence/open.ts";
import type { TakeOver } from "../coexistence/take_over.ts";
import { openNodeJudge } from "../objects/nodes/node_judge.ts";
import type { Component } from "../component.ts";
import type { Configuration } from "../configuration/configuration.ts";
import { Ruleset } from "../ruleset/ruleset.ts";
import { RulesetWatch } from "../ruleset/ruleset_watch.ts";
import { withVersion } from "../ruleset/schema.ts";
import { prepareStaticRules } from "../ruleset/desired/static_rules.ts";
import type { NoticeSink } from "../events/notice.ts";
import type { FlowLedger } from "../flows/flow_ledger.ts";
import { openFlowLedger } from "../flows/open.ts";
import type { Logger } from "../log/logger.ts";
import { v8CollectionPace } from "../lib/collection_pace.ts";
import { type MergedRules, mergedRules } from "../metrics/merged_rules.ts";
import { observed } from "../metrics/commit_observer.ts";
import { type NodeMetrics, openNodeMetrics } from "../metrics/open.ts";
import type { PolicyOptions } from "../policies/compile/options.ts";
import { POLICY_TABLE } from "../policies/compile/policy_table.ts";
import { openConnectionLimit } from "../policies/connection_limit/open.ts";
import type { Cuts } from "../policies/cuts/cuts.ts";
import { openCuts } from "../policies/cuts/open.ts";
import { DropLog } from "../policies/drop_log/drop_log.ts";
import { OwnNetworks } from "../policies/own_networks.ts";
import { policiesOff } from "../policies/policies_off.ts";
import { PolicyDataplane } from "../policies/policy_dataplane.ts";
import { CLOSED_POLICY } from "../policies/live/closed_policies.ts";
import { LEFT_OUT, PolicyNotices } from "../policies/policy_notices.ts";
import { retainedFiles } from "../policies/retained/retained_files.ts";
import type { NodeStateDataplane } from "../node_state/node_state_dataplane.ts";
import { openNodeState } from "../node_state/open.ts";
import type { NodeStateReport } from "../node_state/report.ts";
import type { ApiServers } from "../protection/api_servers.ts";
import type { HostPortRefusals } from "../protection/host_port_refusals.ts";
import { openProtection } from "../protection/open.ts";
import { openRoutes } from "../routes/open.ts";
import type { RoutesDataplane } from "../routes/routes_dataplane.ts";
import { serviceElements } from "../services/services_dataplane.ts";
import { openServices } from "../services/open.ts";
import type { StaleFlowsStatus } from "../services/stale_flows/stale_flows.ts";
import { LateFlowDeletion } from "./late_flow_deletion.ts";
import type { Address } from "../../kernel/ip/address.ts";
import { affordableFragmentMemory, openConntrackSettings } from "./conntrack_settings.ts";
import { KnownPaths } from "./tables/path_mtu_guard.ts";
import { type FlowCleanup, kernelFlowCleanup } from "./flow_cleanup.ts";
import type { AttachmentRecord } from "../../cni/attachment/attachment.ts";
import { openMasquerade } from "./masquerade/masquerade_dataplane.ts";
import { PortShareDataplane } from "./masquerade/port_share_dataplane.ts";
import { kernelNodePorts } from "./masquerade/taken_ports.ts";
import { NodeDataplane } from "./node_dataplane.ts";
import { kernelAddressCleanup } from "./address_cleanup.ts";
import { policyOptions, serviceRules } from "./tables/rule_options.ts";
import { configuredTables } from "./tables/configured_tables.ts";
import { openTunnelGuard } from "./tunnel_guard_dataplane.ts";

/** The parts of the machine that {@link openNodeComponents} needs. */
export interface NodeMachine {
  readonly syscalls: ReturnType<typeof nodeSyscalls>;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly attachments: AttachmentRegistry;
  readonly clusterEvents: NoticeSink;
  /** The id of this boot. */
  readonly bootId: () => string;
  /** Whether a daemon has enforced policies since this boot. @throws DrawbridgeError when that cannot be read */
  readonly wasEnforced: () => boolean;
  /** Receives the thread that waits for the kernel's notifications, when it starts. */
  readonly onEvents: (events: KernelEvents) => void;
}

/** The parts that program the kernel, and those that measure it. */
export interface NodeComponents {
  readonly components: readonly Component[];
  readonly ruleset: Ruleset;
  readonly metrics: NodeMetrics;
  /** Attributes packets of merged rules to single rules. */
  readonly merged: MergedRules;
  readonly staleFlows: () => StaleFlowsStatus;
  readonly notices: PolicyNotices;
  readonly routes: RoutesDataplane;
  readonly nodeState: { readonly dataplane: NodeStateDataplane; readonly report: NodeStateReport };
  /** The API servers that this node connects to. */
  readonly servers: ApiServers;
  readonly hostPorts: HostPortRefusals;
  readonly ended: EndedSandboxes;
  /** Undefined where policies are not enforced. */
  readonly policies: PolicyDataplane | undefined;
  /** Likewise. */
  readonly dropLog: DropLog | undefined;
  /** Undefined where flows are not recorded. */
  readonly flowLedger: FlowLedger | undefined;
  /** Undefined where policies are not enforced. */
  readonly cuts: Cuts | undefined;
  /** Likewise. */
  readonly takeOver: TakeOver | undefined;
}

/** Netlink port ids are process ids by default, which are below 2^22; no process uses ids from this range. */
const LOWEST_PORT_ID = 2 ** 30;
const HIGHEST_PORT_ID = 2 ** 31;

/**
 * Opens nftables and the links of this thread's network namespace for the node's tables and Services. Nothing is
 * written before {@link NodeDataplane.synced}.
 *
 * @throws SyscallError without CAP_NET_ADMIN or without nftables in the kernel
 * @throws DrawbridgeError ERR_NFTABLES_VALUE when no rule can hold the bridge's name
 */
export function openNodeComponents(configuration: Configuration, machine: NodeMachine): NodeComponents {
  const { syscalls, clock, logger, attachments, onEvents } = machine;
  const { minSyncPeriod, syncPeriod, stateDirectory, nodeName, podCIDRs } = configuration;
  const options = policyOptions(configuration);
  const services = serviceRules(configuration);
  const fragmentMemory = affordableFragmentMemory(configuration.fragmentMemory, totalmem());
  const tables = configuredTables({ ...configuration, fragmentMemory }).map(withVersion);
  const portId = randomInt(LOWEST_PORT_ID, HIGHEST_PORT_ID);
  const metrics = openNodeMetrics(configuration, { tables, syscalls, logger });
  const socket = new NftablesSocket(syscalls, portId);
  const kernel = observed(socket, metrics.counters, metrics.policyCounters);
  const ruleset = new Ruleset({ kernel, clock, logger, tables, minSyncPeriod, syncPeriod });
  ruleset.follow(() => metrics.counters.rulesInForce());
  ruleset.follow(() => metrics.firstSync.rulesInForce());
  const watch = new RulesetWatch({ ruleset, clock, logger, portId });
  const links = new LinkSockets(syscalls);
  const flows = kernelFlowCleanup(syscalls, kernelAddressCleanup(syscalls, ruleset));
  const place = { stateDirectory, files: systemFileSystem(syscalls) };
  const judge = openNodeJudge(configuration);
  const protection = openProtection(configuration, { ...machine, judge, ruleset, kernel: socket });
  const serving = { ...machine, judge, protection: protection.index, ruleset, observer: metrics.services };
  const served = openServices(configuration, serving);
  const policies = options && openPolicies(configuration, options, ruleset, place, machine);
  const notices = openNotices(policies, machine);
  ruleset.follow(() => notices.rulesInForce());
  const policyTable = ruleset.tableNamed(POLICY_TABLE.family, POLICY_TABLE.name);
  const judgeOf = policies?.flowJudge.bind(policies);
  const isSettled = (): boolean => policies?.isSettled === true;
  const cuts =
    judgeOf && options && policyTable
      ? openCuts({ syscalls, clock, logger, ruleset, kernel: socket, policyTable, options, judgeOf, isSettled })
      : undefined;
  if (cuts !== undefined) policies?.follow(cuts);
  openConnectionLimit(policies, configuration.connectionLimit, { ...machine, ruleset });
  const originals = { files: place.files, runDirectory: stateDirectory, bootId: machine.bootId };
  const flowLedger = openFlowLedger(configuration, policies, { ...machine, originals }, ruleset);
  const dropLog = policies && options && openDropLog(policies, options, machine, flowLedger);
  const merged: MergedRules = policies && options ? mergedRules(policies.view(), options) : { of: () => [] };
  const paths = new KnownPaths(ruleset);
  const setOnLink = (addresses: ReadonlySet<Address>): void => paths.set(addresses);
  const nodeRoutes = openRoutes(configuration, { ...machine, judge, setOnLink });
  const presence = {
    hasLink: (attachment: AttachmentRecord) => hasLink(attachment, links),
    isPresent: (attachment: AttachmentRecord) => isPresent(attachment, place, links),
  };
  const ended = new EndedSandboxes({
    attachments,
    clock,
    logger,
    nodeName: configuration.nodeName,
    ...presence,
    marks: markFiles(place, syscalls),
  });
  const { beside, takeOver } = openCoexistence(configuration, machine, socket, tables);
  const isForbidden = (bridge: string): boolean => bridge === configuration.bridge && takeOver?.isForbidden === true;
  const uplinks = (): readonly string[] => nodeRoutes.uplinks();
  const nodeState = openNodeState(configuration, { ...machine, uplinks, isForbidden, links: ended });
  const startEvents = (): KernelEvents => {
    const events = startEventThread({ calls: syscalls });
    void nodeRoutes.start(events);
    void nodeState.dataplane.start(events);
    void beside.start(events);
    onEvents(events);
    return events;
  };
  openConntrackSettings(configuration, { ...machine, originals }, ruleset);
  const masquerade = openMasquerade(configuration, ruleset, judge);
  const portShares = new PortShareDataplane({
    ruleset,
    clock,
    logger,
    ports: kernelNodePorts(syscalls),
    attachments: () => attachments.values(),
    isNeeded: (attachment) => configuration.masquerade || services !== undefined || attachment.ipMasq === true,
  });
  const node = new NodeDataplane({
    ruleset,
    watch,
    startEvents,
    prepare: () => prepareStaticRules(tables, socket, clock),
    // Their lines give reasons that only the objects contain.
    onObjects: (events) => {
      void dropLog?.start(events);
      void flowLedger?.start(events);
    },
    links: new LinkRemoval(links),
    flows,
    lateFlowDeletion: openLateFlowDeletion(policies, ruleset, flows, clock),
    ...presence,
    ended,
    endBypass: (attachment) => endBypass(attachment, links),
    logger,
    attachments,
    furtherElements: (attachment) => {
      portShares.attached(attachment);
      return [...(services ? serviceElements(attachment) : []), ...masquerade.elementsOf(attachment)];
    },
    hostPorts: protection.hostPorts,
    policedBridge: options?.bridge,
    takeOver,
    follower: policies ?? policiesOff(socket, logger),
  });
  const others = [
    ...served.dataplanes,
    ...(policies ? [policies, new OwnNetworks({ ruleset, nodeName, podCidrs: podCIDRs, judge, attachments })] : []),
  ];
  const tunnelGuards = openTunnelGuard(configuration, ruleset);
  const first = [ended, metrics.firstSync, notices, protection.dataplane, flowLedger].filter(
    (one) => one !== undefined,
  );
  // NodeDataplane comes last: it starts the ruleset, after the others have made their claims.
  const last = [...tunnelGuards, nodeRoutes, nodeState.dataplane, beside, node];
  const all = [...first, ...others, ...masquerade.dataplanes, portShares, ...last];
  return {
    components: all,
    servers: protection.servers,
    hostPorts: protection.hostPorts,
    ended,
    ruleset,
    metrics,
    merged,
    staleFlows: served.staleFlows,
    notices,
    routes: nodeRoutes,
    nodeState,
    policies,
    dropLog,
    flowLedger,
    cuts,
    takeOver,
  };
}

function openPolicies(
  { nodeName, objectsDirectory }: Configuration,
  options: PolicyOptions,
  ruleset: Ruleset,
  place: Pick<RecordPlace, "stateDirectory" | "files">,
  { clock, logger, attachments }: NodeMachine,
): PolicyDataplane {
  const keys = (): Set<string> => new Set([...attachments.values()].map(attachmentKey));
  const retained = retainedFiles({ ...place, logger, attachments: keys });
  return new PolicyDataplane({
    nodeName,
    ruleset,
    clock,
    options,
    retained,
    areNamespacesReported: objectsDirectory === undefined,
    collectionPace: v8CollectionPace(),
  });
}

function openNotices(policies: PolicyDataplane | undefined, { logger, clusterEvents }: NodeMachine): PolicyNotices {
  const restrictions = policies && [
    { policies: () => policies.leftOut(), reason: LEFT_OUT },
    { policies: () => policies.closedPolicies(), reason: CLOSED_POLICY },
  ];
  const isEnforced = policies !== undefined;
  return new PolicyNotices({ logger, events: clusterEvents, isEnforced, restrictions: restrictions ?? [] });
}

/** Returns the late deletion of flows; undefined without policies, as only they pass established flows by an earlier verdict. */
function openLateFlowDeletion(
  policies: PolicyDataplane | undefined,
  ruleset: Ruleset,
  flows: FlowCleanup,
  clock: Clock,
): LateFlowDeletion | undefined {
  if (policies === undefined) return undefined;
  return new LateFlowDeletion({
    clock,
    areRulesGone: () => ruleset.inForce(),
    forget: (addresses) => flows.forgetAddresses(addresses),
  });
}

function openDropLog(
  policies: PolicyDataplane,
  options: PolicyOptions,
  { logger, clock }: NodeMachine,
  observer: FlowLedger | undefined,
): DropLog {
  const dropLog = new DropLog({
    group: options.dropLogGroup,
    view: policies.view(),
    options,
    logger,
    clock,
    observer,
  });
  policies.follow(dropLog);
  return dropLog;
}
