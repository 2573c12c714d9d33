import process from "node:process";
import { systemFileSystem } from "../ipam/file_system.ts";
import { DrawbridgeError } from "../kernel/error.ts";
import type { KernelEvents } from "../kernel/events/events.ts";
import type { nodeSyscalls } from "../kernel/syscall/koffi.ts";
import { AttachmentFailures, recordedFailures } from "./attachments/failures.ts";
import { AttachmentRegistry } from "./attachments/registry.ts";
import { realClock } from "./lib/clock.ts";
import type { Configuration } from "./configuration/configuration.ts";
import { Daemon } from "./daemon.ts";
import { openEvents } from "./events/open.ts";
import { openHealth } from "./health/open.ts";
import { openInstallation } from "./installation/open.ts";
import type { Ruleset } from "./ruleset/ruleset.ts";
import type { Logger } from "./log/logger.ts";
import { winstonLogger } from "./log/winston_logger.ts";
import { keepMemoryTrimmed } from "./lib/memory_trim.ts";
import { serveMetrics } from "./metrics/open.ts";
import { openNetworkCondition } from "./network_condition/open.ts";
import { openNodeComponents } from "./node/open.ts";
import type { Closing } from "./policies/closing/close_early.ts";
import type { EnforcedMark } from "./policies/closing/enforced_mark.ts";
import { PolicyProgress } from "./policies/status/policy_progress.ts";
import { policyReport } from "./policies/status/policy_report.ts";
import { openStateKeeper } from "./state_directory/open.ts";
import { serveSocket } from "./socket/server.ts";
import { openSource } from "./objects/open.ts";
import { VERSION } from "./version.ts";

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
  const { nodeName, socketPath, stateDirectory } = configuration;
  const files = systemFileSystem(syscalls);
  const attachments = new AttachmentRegistry();
  const onAddress = (message: string): void => logger.info("address of the API server", { address: message });
  const before = (server: URL): Promise<void> => servers.before(server);
  const source = openSource(configuration, syscalls, realClock, onAddress, before);
  const clusterEvents = openEvents(configuration, { files: syscalls, clock: realClock, logger });
  const onEvents = (events: KernelEvents): void => health.watch(events);
  const machine = {
    syscalls,
    clock: realClock,
    logger,
    attachments,
    clusterEvents,
    onEvents,
    bootId: () => bootId,
    wasEnforced: () => mark.isSet(),
  };
  const node = openNodeComponents(configuration, machine);
  const { components, ruleset, metrics, staleFlows, notices, routes, nodeState, policies, dropLog, cuts, servers } =
    node;
  const { takeOver } = node;
  const isMarked = configuration.policies ? markWhenInForce(mark, ruleset, logger) : () => false;
  const installing = { clock: realClock, logger, events: clusterEvents, ruleset, routes };
  const installation = openInstallation(configuration, installing);
  const health = openHealth(configuration, { clock: realClock, logger, ruleset });
  const recorded = recordedFailures({ syscalls, files, bootId: () => bootId }, configuration.stateDirectory);
  const failures = new AttachmentFailures({ recorded, clock: realClock, logger, events: clusterEvents, nodeName });
  const telling = { files: syscalls, clock: realClock, logger, events: clusterEvents, health, routes };
  const networkCondition = openNetworkCondition(configuration, telling);
  const isInForce = policies && ((): boolean => ruleset.isSynced && policies.isWorkedOut);
  const progress = new PolicyProgress({ clock: realClock, isInForce });
  const others = [progress, installation, networkCondition, failures].filter((one) => one !== undefined);
  const all = [...components, ...others, health.dataplane];
  const { sums } = metrics.policyCounters;
  const policyReading = { sums, refresh: () => metrics.policyCounters.refresh(node.merged) };
  const parts = {
    version: VERSION,
    nodeName,
    source,
    attachments,
    components: all,
    logger,
    events: clusterEvents,
    clock: realClock,
    flows: node.flowLedger,
    policyReport: policyReport({ progress, notices, counters: policyReading }),
  };
  const daemon = new Daemon(parts);
  // The socket comes first, so that a second daemon is refused before it has read or changed anything.
  const socket = await serveSocket(socketPath, daemon, logger, { syscalls, files });
  for (const problem of attachments.load({ stateDirectory, bootId, files })) {
    logger.warn("attachment record not used", { reason: problem });
  }
  const onReservations = (count: number): void => nodeState.report.restored("reservation", count);
  const keeping = {
    syscalls,
    files,
    clock: realClock,
    logger,
    attachments,
    socket,
    isMarked,
    mark,
    onReservations,
    end,
  };
  const keeper = openStateKeeper(configuration, keeping);
  keeper.start();
  if (configuration.objectsDirectory === undefined) servers.start();
  daemon.start();
  installation?.start();
  const objects = { name: "objects", missing: () => (daemon.isSynced ? undefined : "not all are read yet") };
  const conditions = [takeOver?.condition, installation?.condition].filter((one) => one !== undefined);
  health.serve([objects, nodeState.dataplane.condition, ...conditions]);
  const policyMetrics = {
    notices,
    isWorkedOut: () => policies?.isWorkedOut !== false,
    sets: () => policies?.setTotals(),
    dropLog: () => dropLog?.counts(),
    cuts: () => cuts?.status(),
  };
  const measured = {
    ruleset,
    attachmentFailures: () => failures.seconds(),
    nodeRepairs: () => nodeState.report.repairs,
    staleFlows,
    flowLedger: () => node.flowLedger?.counts(),
    refusedHostPorts: () => node.hostPorts.count,
    policies: policyMetrics,
    policyReading,
    events: clusterEvents,
    logger,
    clock: realClock,
  };
  const metricsServer = serveMetrics(configuration, metrics, daemon, measured);
  const stopTrimming = keepMemoryTrimmed(syscalls, realClock);
  logger.info("policyd started", { version: VERSION, nodeName, socketPath, attachments: attachments.size });
  return {
    logger,
    stop: async () => {
      stopTrimming();
      keeper.stop();
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

/** Sets the mark by which the next daemon knows that missing tables were lost. @returns whether it was set */
function markWhenInForce(mark: EnforcedMark, ruleset: Pick<Ruleset, "follow">, logger: Logger): () => boolean {
  let isMarked = false;
  ruleset.follow(() => {
    if (isMarked) return;
    isMarked = true;
    try {
      mark.set();
    } catch (error) {
      if (!(error instanceof DrawbridgeError)) throw error;
      logger.warn("a daemon that finds no tables will not close pods at its start", { reason: error.message });
    }
  });
  return () => isMarked;
}

/** Ends a daemon that has hit a bug, which must not continue: the next one starts from the kernel's state. */
function endHalfAlive(logger: Logger, error: unknown, end: () => never): never {
  const [message, stack] = error instanceof Error ? [error.message, error.stack] : [String(error), undefined];
  logger.error("unexpected error, policyd ends: please report this as a bug of Drawbridge", { reason: message, stack });
  return end();
}
