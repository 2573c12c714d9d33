import process from "node:process";
import { CommanderError } from "commander";
import { systemFileSystem } from "../ipam/file_system.ts";
import { DrawbridgeError } from "../kernel/error.ts";
import type { KernelEvents } from "../kernel/events/events.ts";
import { readBootId, readTextFile } from "../kernel/file.ts";
import { enterNamespace, openNamespace } from "../kernel/network_namespace.ts";
import { nodeSyscalls } from "../kernel/syscall/node.ts";
import { AttachmentFailures, recordedFailures } from "./attachments/failures.ts";
import { AttachmentRegistry } from "./attachments/registry.ts";
import { realClock } from "./clock.ts";
import { readCommandLine } from "./configuration/command_line.ts";
import type { Configuration } from "./configuration/configuration.ts";
import { readConfiguration } from "./configuration/configuration.ts";
import { Daemon } from "./daemon.ts";
import { openEvents } from "./events/open.ts";
import { openHealth } from "./health/open.ts";
import { openInstallation } from "./installation/open.ts";
import { printableUpTo } from "./log/line.ts";
import type { Logger } from "./log/logger.ts";
import { winstonLogger } from "./log/winston_logger.ts";
import { keepMemoryTrimmed } from "./memory_trim.ts";
import { serveMetrics } from "./metrics/open.ts";
import { openNetworkCondition } from "./network_condition/open.ts";
import { openNodeDataplanes } from "./node/open.ts";
import { serveSocket } from "./socket/server.ts";
import { openSource } from "./source/open.ts";
import { VERSION } from "./version.ts";

const LARGEST_CONFIGURATION = 1024 * 1024;
/** All problems of a configuration are one line: a dozen of them are longer than a value in the log. */
const LONGEST_REFUSAL = 64 * 1024;
/** Stopping is a matter of milliseconds; whatever does not end by then is ended with us. */
const STOP_MILLISECONDS = 800;

const syscalls = nodeSyscalls();

/** What is running. */
interface Running {
  readonly logger: Logger;
  stop(): Promise<void>;
}

let running: Running | undefined;

/**
 * Starts the daemon.
 *
 * @throws DrawbridgeError for whatever keeps it from starting, CommanderError for its command line and after the help
 */
async function start(args: readonly string[]): Promise<Running> {
  const { config, networkNamespace, flags } = readCommandLine(args, VERSION, (text) => process.stdout.write(text));
  const configuration = readConfiguration(config === undefined ? undefined : configurationFile(config), flags);
  const logger = winstonLogger(
    { level: configuration.logLevel, format: configuration.logFormat },
    process.stderr,
    realClock,
  );
  process.on("uncaughtException", (error) => endHalfAlive(logger, error));
  // Before anything opens a socket of the kernel or starts a thread: both belong to the namespace of this thread.
  if (networkNamespace !== undefined) enterNamespace(syscalls, openNamespace(syscalls, networkNamespace));
  return await compose(configuration, logger);
}

/** @throws DrawbridgeError as {@link serveSocket} and {@link openSource}, ERR_STORE when the attachment records cannot be listed */
async function compose(configuration: Configuration, logger: Logger): Promise<Running> {
  const { nodeName, socketPath, stateDirectory } = configuration;
  const files = systemFileSystem(syscalls);
  const attachments = new AttachmentRegistry();
  const onAddress = (message: string): void => logger.info("address of the API server", { address: message });
  const source = openSource(configuration, syscalls, realClock, onAddress);
  const clusterEvents = openEvents(configuration, { files: syscalls, clock: realClock, logger });
  const onEvents = (events: KernelEvents): void => health.watch(events);
  const bootId = readBootId(syscalls);
  const machine = { syscalls, clock: realClock, logger, attachments, clusterEvents, onEvents, bootId: () => bootId };
  const node = openNodeDataplanes(configuration, machine);
  const { dataplanes, ruleset, metrics, staleFlows, notices, routes, nodeState, policies, dropLog, cuts } = node;
  const installing = { clock: realClock, logger, events: clusterEvents, ruleset, routes };
  const installation = openInstallation(configuration, installing);
  const health = openHealth(configuration, { clock: realClock, logger, ruleset });
  const recorded = recordedFailures({ syscalls, files, bootId: () => bootId }, configuration.stateDirectory);
  const failures = new AttachmentFailures({ recorded, clock: realClock, logger, events: clusterEvents, nodeName });
  const telling = { files: syscalls, clock: realClock, logger, events: clusterEvents, health, routes };
  const networkCondition = openNetworkCondition(configuration, telling);
  const others = [installation, networkCondition, failures].filter((one) => one !== undefined);
  const all = [...dataplanes, ...others, health.dataplane];
  const parts = {
    version: VERSION,
    nodeName,
    source,
    attachments,
    dataplanes: all,
    logger,
    events: clusterEvents,
    clock: realClock,
  };
  const daemon = new Daemon(parts);
  // The socket is first: a second daemon is refused before it has read or changed anything.
  const socket = await serveSocket(socketPath, daemon, logger, { syscalls, files });
  for (const problem of attachments.load({ stateDirectory, bootId, files })) {
    logger.warn("attachment record not used", { reason: problem });
  }
  daemon.start();
  installation?.start();
  const objects = { name: "objects", missing: () => (daemon.isSynced ? undefined : "not all are read yet") };
  const conditions = installation === undefined ? [] : [installation.condition];
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
    policies: policyMetrics,
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
      health.stopping();
      clusterEvents.stop();
      metricsServer?.stop();
      await socket.close();
      await daemon.stop();
      health.stop();
    },
  };
}

function configurationFile(path: string): { readonly path: string; readonly text: string } {
  const text = readTextFile(syscalls, path, LARGEST_CONFIGURATION);
  if (text === undefined) throw new DrawbridgeError("ERR_CONFIGURATION", `--config: ${path} does not exist`);
  return { path, text };
}

/** A daemon with a bug in it must not go on as if nothing had happened: the next one begins from the kernel's state. */
function endHalfAlive(logger: Logger, error: unknown): never {
  const [message, stack] = error instanceof Error ? [error.message, error.stack] : [String(error), undefined];
  logger.error("unexpected error, policyd ends: please report this as a bug of Drawbridge", { reason: message, stack });
  process.exit(1);
}

function onSignal(signal: NodeJS.Signals): void {
  if (running === undefined) process.exit(0);
  const { logger } = running;
  logger.info("policyd stops", { signal });
  setTimeout(() => {
    logger.warn("policyd did not stop in time and ends", { milliseconds: STOP_MILLISECONDS });
    process.exit(0);
  }, STOP_MILLISECONDS);
  void running.stop().then(() => process.exit(0));
}

for (const signal of ["SIGTERM", "SIGINT"] as const) process.once(signal, onSignal);

try {
  running = await start(process.argv.slice(2));
} catch (error) {
  const isHelp = error instanceof CommanderError && error.exitCode === 0;
  if (!isHelp) {
    const words = error instanceof Error ? error.message : String(error);
    process.stderr.write(`policyd: ${printableUpTo(words.replace(/^error: /, ""), LONGEST_REFUSAL)}\n`);
  }
  process.exit(isHelp ? 0 : 1);
}
