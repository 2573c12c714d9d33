import { familyOf } from "../../kernel/ip/address.ts";
import { nftablesCounters } from "../../kernel/nftables/decode/counters.ts";
import type { Table } from "../../kernel/nftables/model/object.ts";
import type { Clock } from "../lib/clock.ts";
import type { Machine } from "../machine.ts";
import type { Configuration } from "../configuration/configuration.ts";
import type { Daemon } from "../daemon.ts";
import type { Ruleset } from "../ruleset/ruleset.ts";
import type { Events } from "../events/event_log.ts";
import type { Logger } from "../log/logger.ts";
import type { ObjectSource } from "../sources/object_source.ts";
import { type ReportedServers, reportedServers, servedAddresses } from "../http/reported_servers.ts";
import { addMetrics, type MetricSources } from "./metrics.ts";
import { POLICY_TABLE } from "../policies/compile/policy_table.ts";
import { NodeCounters } from "./node_counters.ts";
import { metricsAnswer, metricsPage, type PageParts } from "./page.ts";
import { PolicyCounters } from "./policy_counters.ts";
import type { PolicyMetricSources } from "./policy_metrics.ts";
import { ServiceMetrics } from "./service_metrics.ts";
import { SyncTimes } from "./sync_times.ts";

/** The parts of a node that measure where things happen. */
export interface NodeMetrics {
  readonly counters: NodeCounters;
  readonly policyCounters: PolicyCounters;
  readonly services: ServiceMetrics;
  readonly syncTimes: SyncTimes;
}

/** Opens the metrics of the node's tables in the network namespace of this thread; nothing is read yet. */
export function openNodeMetrics(
  { metricsAddress, endpointMetrics }: Configuration,
  { tables, syscalls, logger }: Pick<Machine, "syscalls" | "logger"> & { readonly tables: readonly Table[] },
): NodeMetrics {
  const syncTimes = new SyncTimes({ logger, now: () => performance.now() });
  const counters = new NodeCounters({
    tables,
    counters: nftablesCounters(syscalls),
    logger,
    hasEndpoints: endpointMetrics && metricsAddress !== undefined,
    onCommit: (seconds) => syncTimes.committed(seconds),
    now: () => performance.now(),
  });
  const policyCounters = new PolicyCounters({
    table: POLICY_TABLE,
    counters: nftablesCounters(syscalls),
    logger,
    now: () => performance.now(),
    time: () => Date.now(),
  });
  return { counters, policyCounters, services: new ServiceMetrics(counters), syncTimes };
}

/**
 * Serves the metrics at the configured address, in the network namespace of this thread.
 *
 * @returns undefined where no address is configured
 */
export function serveMetrics(
  { metricsAddress: listen, endpointMetrics }: Configuration,
  { counters, policyCounters, services, syncTimes }: NodeMetrics,
  daemon: Pick<Daemon, "status" | "objectProblems">,
  parts: Pick<
    MetricSources,
    "attachmentFailures" | "nodeRepairs" | "staleFlows" | "flowLedger" | "refusedHostPorts"
  > & {
    readonly source: Pick<ObjectSource, "staleness" | "restored">;
    readonly ruleset: Pick<Ruleset, "status" | "isReconciled">;
    readonly policies: Omit<PolicyMetricSources, "counters">;
    readonly policyReading: PageParts["policyCounters"];
    readonly clusterEvents: Pick<Events, "counts">;
    readonly logger: Logger;
    readonly clock: Clock;
  },
): ReportedServers | undefined {
  if (listen === undefined) return undefined;
  const { source, ruleset, policies, policyReading, clusterEvents, logger, clock } = parts;
  const { registry } = syncTimes;
  // The status lists all problems, so it is read only once for each request.
  let status = daemon.status();
  addMetrics(registry, {
    ...parts,
    daemon: () => status,
    objectProblems: () => daemon.objectProblems(),
    staleness: () => source.staleness?.() ?? new Map(),
    restored: () => source.restored?.() ?? new Map(),
    ruleset: () => ruleset.status(),
    services: () => services.totals(),
    drops: () => counters.drops(),
    policies: { ...policies, counters: policyCounters },
    events: () => clusterEvents.counts(),
  });
  const page = (): AsyncIterable<string> => {
    status = daemon.status();
    return metricsPage({
      registry,
      counters: { refresh: () => counters.refresh(ruleset.isReconciled), series: () => counters.series() },
      policyCounters: policyReading,
      hasEndpoints: endpointMetrics,
      clock,
    });
  };
  return reportedServers({
    clock,
    onRefused: (fields) => logger.warn("metrics are not served; it is tried again", fields),
    onOpen: (fields) => logger.info("metrics are served after all", fields),
    // IPv4 clients are served at "::", but IPv6 clients not at "0.0.0.0".
    addresses: familyOf(listen.address) === 6 ? servedAddresses(listen.address) : [listen.address],
    port: listen.port,
    answer: metricsAnswer(page, registry.contentType),
  });
}
