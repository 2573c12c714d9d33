import process from "node:process";
import { release } from "node:os";
import { Startup } from "./startup.ts";
import { randomInt } from "node:crypto";
import { localAddresses } from "../cni/node_rules/stale_flows.ts";
import { netlinkNodeState } from "../cni/node_state/netlink_kernel.ts";
import { rememberingSysctl } from "../attachment/original_settings.ts";
import { openRouteSocket } from "../kernel/route/socket.ts";
import { procSysctl } from "../kernel/sysctl.ts";
import { systemFileSystem } from "../ipam/file_system.ts";
import { startNotificationThread } from "../kernel/notifications/thread.ts";
import { ConntrackSockets } from "../kernel/conntrack/sockets.ts";
import type { Address } from "../kernel/ip/address.ts";
import { type Nftables, NftablesSocket } from "../kernel/nftables/socket.ts";
import type { nodeSyscalls } from "../kernel/syscall/koffi.ts";
import { attachmentPresence } from "./attachments/attachment_exists.ts";
import { endBypass } from "./attachments/bypass_end.ts";
import { EndedSandboxes } from "./attachments/ended_sandboxes.ts";
import { AttachmentFailures, recordedFailures } from "./attachments/failures.ts";
import { LinkRemoval, openLinkSockets } from "./attachments/link_removal.ts";
import { AttachmentRegistry } from "./attachments/registry.ts";
import { openCoexistence } from "./coexistence/open.ts";
import { Examination } from "./checks/examination.ts";
import { attempt, readLinkKinds, readLinks, readMachine, readPacketLog } from "./checks/read_machine.ts";
import type { Configuration } from "./configuration/configuration.ts";
import { Daemon } from "./daemon.ts";
import { openEvents } from "./events/event_log.ts";
import { openHealth } from "./health/open.ts";
import { openInstallation } from "./installation/installation.ts";
import { realClock, persistentClock } from "./lib/clock.ts";
import { ControlLoop } from "./lib/control_loop.ts";
import type { Logger } from "./log/logger.ts";
import type { Machine } from "./machine.ts";
import { winstonLogger } from "./log/winston_logger.ts";
import { observed } from "./metrics/commit_observer.ts";
import { mergedRules } from "./metrics/merged_rules.ts";
import { openNodeMetrics, serveMetrics } from "./metrics/open.ts";
import { openNetworkCondition } from "./network_condition/network_condition.ts";
import { kernelAddressCleanup, kernelFlowCleanup } from "./node/address_cleanup.ts";
import { LateFlowDeletion } from "./node/late_flow_deletion.ts";
import { openMasquerade } from "./node/masquerade/masquerade_networks.ts";
import { PortShares } from "./node/masquerade/port_shares.ts";
import { ServicePorts } from "./node/masquerade/service_ports.ts";
import { kernelNodePorts, kernelSockets } from "./node/masquerade/taken_ports.ts";
import { AttachmentRules } from "./node/attachment_rules.ts";
import { elementsOnBridge } from "./node/tables/attached_addresses.ts";
import { knownPaths } from "./node/tables/path_mtu_guard.ts";
import { sampleOf, tryTable } from "../kernel/nftables/table_check.ts";
import { writeConntrackSettings } from "./node/conntrack_settings.ts";
import { refuseUnfitKernel } from "./checks/kernel.ts";
import { configuredTables, dropLogTrial, obsoleteTables } from "./node/tables/tables.ts";
import { openNodeAddressSets } from "./node/node_address_sets.ts";
import { openTunnelPorts } from "./node/tunnel_ports.ts";
import { NodeStateReconciler } from "./node_state/node_state_reconciler.ts";
import { NodeStateReport } from "./node_state/report.ts";
import { NodeJudge } from "../objects/nodes/node_judge.ts";
import { openSource } from "./sources/open.ts";
import type { Closing } from "./policies/closing/close_early.ts";
import type { EnforcedMark } from "./policies/closing/enforced_mark.ts";
import { openPolicies } from "./policies/open.ts";
import { policyReporter } from "./policies/status/policy_report.ts";
import { openProtection } from "./protection/open.ts";
import { NetlinkRouteKernel } from "./routes/route_kernel/netlink_kernel.ts";
import { RouteReconciler } from "./routes/route_reconciler.ts";
import { Ruleset } from "./ruleset/ruleset.ts";
import { RulesetWatch, UnheardCommits } from "./ruleset/ruleset_watch.ts";
import { withVersion } from "./ruleset/schema.ts";
import { openServices } from "./services/open.ts";
import type { NodeSocket } from "./services/yielded_frontends.ts";
import type { RequestHandlers } from "./socket/handlers.ts";
import { serveSocket } from "./socket/server.ts";
import { openStateKeeper } from "./state_directory/open.ts";
import { VERSION } from "./version.ts";

/** Netlink port ids are process ids by default, which are below 2^22; no process uses ids from this range. */
const LOWEST_PORT_ID = 2 ** 30;
const HIGHEST_PORT_ID = 2 ** 31;
/** Milliseconds. Short-lived memory of lists and compilers is freed within seconds. */
const LONGEST_UNTRIMMED = 30_000;

/** The running daemon. */
export interface Running {
  readonly logger: Logger;
  stop(): Promise<void>;
}

/** The state in which main.ts starts the daemon. */
export interface Beginning {
  readonly configuration: Configuration;
  readonly syscalls: ReturnType<typeof nodeSyscalls>;
  /** The id of this boot. */
  readonly bootId: string;
  readonly closing: Closing;
  readonly mark: EnforcedMark;
  /** Milliseconds from the process's start until pods were closed. */
  readonly milliseconds: number;
  /** Ends the process immediately. */
  readonly end: () => never;
}

/**
 * Starts all parts of the daemon.
 *
 * @throws DrawbridgeError as {@link serveSocket} and {@link openSource}, ERR_STORE when attachment records cannot be
 * listed
 */
export async function start(beginning: Beginning): Promise<Running> {
  const { configuration, closing, milliseconds, end } = beginning;
  const logger = winstonLogger(
    { level: configuration.logLevel, format: configuration.logFormat },
    process.stderr,
    realClock,
  );
  process.on("uncaughtException", (error) => endHalfAlive(logger, error, end));
  tellOfClosing(closing, milliseconds, logger);
  return await compose(beginning, logger);
}

function tellOfClosing({ missing, isLost, failure }: Closing, milliseconds: number, logger: Logger): void {
  const fields = { tables: missing.join(", "), milliseconds };
  if (isLost) logger.warn("tables are lost: pods are closed until all objects are read", fields);
  else if (missing.length > 0) logger.info("no pod passes anything until all objects are read", fields);
  if (failure !== undefined) logger.error("pods are not closed before all objects are read", { error: failure });
}

async function compose({ configuration, syscalls, bootId, mark, end }: Beginning, logger: Logger): Promise<Running> {
  const { bridge, nodeName, socketPath, stateDirectory, minSyncPeriod, syncPeriod } = configuration;

  // These are outside of the daemon: the kernel, files, and the API server.
  const clock = persistentClock(realClock, ({ message }) =>
    logger.warn("out of descriptors or memory; it is tried again", { error: message }),
  );
  const files = systemFileSystem(syscalls);
  const portId = randomInt(LOWEST_PORT_ID, HIGHEST_PORT_ID);
  const kernel = new NftablesSocket(syscalls, portId);
  const links = openLinkSockets(syscalls);
  const presence = attachmentPresence({ stateDirectory, files }, links);
  const originals = { files, runDirectory: stateDirectory, bootId: () => bootId };
  const clusterEvents = openEvents(configuration, { syscalls, clock, logger });

  // These hold what is known and desired: this node's pods, the judged Nodes, and the tables.
  const attachments = new AttachmentRegistry();
  const { podCIDRs: ownCidrs, serviceCIDRs: serviceCidrs } = configuration;
  const judge = new NodeJudge({ nodeName, ownCidrs, serviceCidrs, keeps: true, clock });
  // Source and socket come first, so that a daemon without a source of objects, and a second daemon, are refused before
  // they have read or changed anything. Requests are answered once the daemon below is there: nothing waits in between.
  const onAddress = (address: string): void => logger.info("address of the API server", { address });
  const source = openSource(configuration, syscalls, clock, onAddress, (server) => protection.servers.before(server));
  const handlers: RequestHandlers = {
    register: (attachment, wait) => daemon.register(attachment, wait),
    unregister: (attachment) => daemon.unregister(attachment),
    status: () => daemon.status(),
    writeFlows: () => daemon.writeFlows(),
    policies: (after) => daemon.policies(after),
  };
  const socket = await serveSocket(socketPath, handlers, logger, { syscalls, files });
  // The trial loads nf_conntrack, whose settings are written next.
  const tried = [...configuredTables(configuration), ...dropLogTrial(configuration)];
  refuseUnfitKernel({
    release: { value: release() },
    trials: attempt(() => tried.flatMap((table) => tryTable(syscalls, sampleOf(table)))),
    hasPacketLog: readPacketLog(syscalls),
  });
  const fragments = writeConntrackSettings(configuration, { syscalls, logger, originals, clock });
  const tables = configuredTables({ ...configuration, ...fragments }).map(withVersion);
  const metrics = openNodeMetrics(configuration, { tables, syscalls, logger });
  const counted = observed(kernel, metrics.counters, metrics.policyCounters);
  const unheard = new UnheardCommits(kernel);
  const commit: Nftables["commit"] = (changes) => unheard.around(changes, () => counted.commit(changes));
  const ofRuleset = { tables, obsolete: obsoleteTables(configuration), minSyncPeriod, syncPeriod };
  const ruleset = new Ruleset({ kernel: { ...counted, commit }, clock, logger, ...ofRuleset });
  ruleset.committed.subscribe(() => metrics.counters.rulesInForce());
  ruleset.committed.subscribe(() => metrics.syncTimes.rulesInForce());
  const shared = { syscalls, files, kernel, clock, logger, originals, nodeName, attachments, judge, ruleset };
  const machine: Machine = { ...shared, conntrack: new ConntrackSockets(syscalls), events: clusterEvents };

  // These program the kernel.
  const ended = new EndedSandboxes({ ...machine, ...presence, stateDirectory });
  const protection = openProtection(configuration, machine);
  const nodeAddressSets = openNodeAddressSets(configuration, ruleset, judge);
  const servingElsewhere = (): ReadonlySet<Address> => nodeAddressSets.servingElsewhere();
  const programSockets = (): readonly NodeSocket[] => kernelSockets(syscalls);
  const ofServices = { protection: protection.index, metrics: metrics.services, servingElsewhere, programSockets };
  const services = openServices(configuration, { ...machine, ...ofServices });
  const policies = openPolicies(configuration, { ...machine, mark });
  const masquerade = openMasquerade(configuration, ruleset, judge);
  const servicePorts = new ServicePorts();
  const portShares = new PortShares({
    ...machine,
    services: servicePorts,
    ports: () => ({ ...kernelNodePorts(syscalls), served: servicePorts.at(localAddresses(syscalls)) }),
    attachments: () => attachments.values(),
    isNeeded: ({ ipMasq }) => configuration.masquerade || configuration.services || ipMasq === true,
  });
  const tunnelPorts = openTunnelPorts(syscalls, machine);
  const routes = new RouteReconciler({
    ...machine,
    kernel: new NetlinkRouteKernel(syscalls),
    options: {
      encapsulation: configuration.encapsulation,
      bridge,
      marks: Object.values(configuration.markBits),
      uses: ({ address }) => attachments.hasGateway(address),
    },
    syncPeriod,
    setOnLink: knownPaths(ruleset),
  });
  const wasEnforced = (): boolean => mark.isSet();
  const { beside, takeOver } = openCoexistence(configuration, machine, tables, wasEnforced);
  const uplinks = (): readonly string[] => routes.uplinks();
  const isForbidden = (name: string): boolean => name === bridge && takeOver?.isForbidden === true;
  const sysctl = procSysctl(syscalls);
  const remembering = { sysctl: rememberingSysctl(sysctl, originals), runDir: stateDirectory };
  const report = new NodeStateReport(machine);
  const nodeState = new NodeStateReconciler({
    ...machine,
    kernel: netlinkNodeState({ syscalls, socket: openRouteSocket(syscalls), ...remembering }),
    sysctl,
    report,
    uplinks,
    isForbidden,
    syncPeriod,
    links: [ended, tunnelPorts, ...(takeOver === undefined ? [] : [takeOver])],
    onAddresses: () => beside.lookSoon(),
  });
  const kinds = ["bridge", "veth", ...(configuration.encapsulation === "never" ? [] : (["vxlan"] as const))] as const;
  const linkKinds = readLinkKinds(syscalls, kinds);
  const servesServices = configuration.services;
  const examination = new Examination({
    clock,
    report,
    facts: () => {
      const place = { bridge, uplinks: uplinks(), servesServices, linkKinds };
      return readMachine(syscalls, { ...place, links: attempt(() => readLinks(syscalls)) });
    },
    // With 250 pods the list of links takes some ten milliseconds.
    period: 2 * syncPeriod,
  });
  const health = openHealth(configuration, machine);
  const cleanup = kernelAddressCleanup(machine, services.affinityPorts);
  const node = new AttachmentRules({
    ...machine,
    ...presence,
    links: new LinkRemoval(links),
    flows: kernelFlowCleanup(machine, cleanup),
    // Only policies pass established flows by an earlier verdict.
    lateFlowDeletion: configuration.policies
      ? new LateFlowDeletion({ clock, areRulesGone: () => ruleset.inForce(), forget: (gone) => cleanup.forget(gone) })
      : undefined,
    ended,
    endBypass: (attachment) => endBypass(attachment, links),
    furtherElements: (attachment) => {
      portShares.attached(attachment);
      return [
        ...elementsOnBridge(attachment, bridge),
        ...services.elementsOf(attachment),
        ...masquerade.elementsOf(attachment),
      ];
    },
    hostPorts: protection.hostPorts,
    policedBridge: configuration.policies ? bridge : undefined,
    refusal: () => takeOver?.refusal,
    follower: policies.follower,
  });
  const watch = new RulesetWatch({ ruleset, clock, logger, portId });
  unheard.watch = watch;
  const startup = new Startup({
    ruleset,
    watch,
    startEvents: () => {
      const events = startNotificationThread(syscalls);
      for (const part of [routes, nodeState]) void part.start(events);
      health.watch(events);
      return events;
    },
    onObjects: (events) => policies.record(events),
    takeOver,
    follower: policies.follower,
    onStart: () => node.started(),
  });

  // These report, to the runtime and to the API server.
  const installation = openInstallation(configuration, machine, routes);
  const networkCondition = openNetworkCondition(configuration, machine, health, routes);
  const recorded = recordedFailures({ syscalls, files, bootId: () => bootId }, stateDirectory);
  const failures = new AttachmentFailures({ ...machine, recorded });

  const components = [
    // The others ask this one which sockets are protected, so it gets changes first.
    protection.index,
    ended,
    metrics.syncTimes,
    policies.notices,
    protection.component,
    policies.flowLedger,
    ...services.components,
    ...policies.components,
    ...masquerade.components,
    portShares,
    nodeAddressSets,
    tunnelPorts,
    routes,
    nodeState,
    examination,
    beside,
    node,
    // Starts the ruleset, after the others have made their claims.
    startup,
    installation,
    networkCondition,
    failures,
    health.component,
  ].filter((component) => component !== undefined);
  const { servers } = protection;
  const merged = mergedRules(policies.view, configuration);
  const { sums } = metrics.policyCounters;
  const policyReading = { sums, refresh: () => metrics.policyCounters.refresh(merged) };
  const daemon = new Daemon({
    ...machine,
    version: VERSION,
    source,
    components,
    flows: policies.flowLedger,
    nodeAddress: () => routes.nodeAddress,
    policyReport: policyReporter({ notices: policies.notices, counters: policyReading, names: policies.knownNames }),
  });

  for (const problem of attachments.load({ stateDirectory, bootId, files })) {
    logger.warn("attachment record not used", { reason: problem });
  }
  const onReservations = (count: number): void => report.restored("reservation", count);
  const keeping = { ...machine, ...presence, socket, mark, onReservations, end };
  const stopKeeping = openStateKeeper(configuration, keeping);
  if (configuration.objectsDirectory === undefined) servers.start();
  daemon.start();
  installation?.start();
  const objects = { name: "objects", missing: () => (daemon.isSynced ? undefined : "not all are read yet") };
  const conditions = [takeOver?.condition, installation?.condition].filter((one) => one !== undefined);
  health.serve([objects, nodeState.condition, ...conditions], () => daemon.status().problems);
  const metricsServer = serveMetrics(configuration, metrics, daemon, {
    ...machine,
    clusterEvents,
    source,
    attachmentFailures: () => failures.seconds(),
    nodeRepairs: () => report.repairs,
    staleFlows: services.staleFlows,
    flowLedger: () => policies.flowLedger?.counts(),
    refusedHostPorts: () => protection.hostPorts.count,
    policies,
    policyReading,
  });
  const pass = (): number => {
    if (daemon.isSynced && judge.isWaiting) daemon.changed([]);
    // Node, V8 and OpenSSL do not free in the order of allocation, so freed memory is returned here. That takes less than
    // a millisecond.
    syscalls.trimMemory();
    return Math.min(syncPeriod, LONGEST_UNTRIMMED);
  };
  const housekeeping = new ControlLoop({ clock, pass });
  housekeeping.run();
  logger.info("policyd started", { version: VERSION, nodeName, socketPath, attachments: attachments.size });
  return {
    logger,
    stop: async () => {
      void housekeeping.stop();
      stopKeeping();
      health.stopping();
      servers.stop();
      clusterEvents.stop();
      metricsServer?.stop();
      await socket.close();
      await daemon.stop();
      health.stop();
    },
  };
}

/** Ends a daemon that has hit a bug, which must not continue: the next one starts from the kernel's state. */
function endHalfAlive(logger: Logger, error: unknown, end: () => never): never {
  const [message, stack] = error instanceof Error ? [error.message, error.stack] : [String(error), undefined];
  logger.error("unexpected error, policyd ends: please report this as a bug of Drawbridge", { reason: message, stack });
  return end();
}
