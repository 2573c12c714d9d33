import { nftablesCounters } from "../../kernel/nftables/decode/counters.ts";
import type { Table } from "../../kernel/nftables/model/object.ts";
import type { Syscalls } from "../../kernel/syscall/syscalls.ts";
import type { Clock } from "../lib/clock.ts";
import type { Configuration } from "../configuration/configuration.ts";
import type { Daemon } from "../daemon.ts";
import type { Ruleset } from "../ruleset/ruleset.ts";
import type { Events } from "../events/open.ts";
import type { Logger } from "../log/logger.ts";
import { FirstSync } from "./first_sync.ts";
import { MetricsServer } from "./http_server.ts";
import { addMetrics, type MetricSources, SyncDuration } from "./metrics.ts";
import { ruleCounters } from "../../kernel/nftables/decode/rule_counters.ts";
import { POLICY_TABLE } from "../policies/compile/policy_table.ts";
import { NodeCounters } from "./node_counters.ts";
import { metricsPage, type PageParts } from "./page.ts";
import { PolicyCounters } from "./policy_counters.ts";
import type { PolicyMetricSources } from "./policy_metrics.ts";
import { ServiceMetrics } from "./service_metrics.ts";

/** The parts of a node that measure where things happen. */
export interface NodeMetrics {
  readonly counters: NodeCounters;
  readonly policyCounters: PolicyCounters;
  readonly services: ServiceMetrics;
  readonly syncDuration: SyncDuration;
  readonly firstSync: FirstSync;
}

/** Opens the metrics of the node's tables in the network namespace of this thread; nothing is read yet. */
export function openNodeMetrics(
  { metricsAddress, endpointMetrics }: Configuration,
  machine: {
    readonly tables: readonly Table[];
    readonly syscalls: Syscalls;
    readonly logger: Logger;
  },
): NodeMetrics {
  const { tables, syscalls, logger } = machine;
  const syncDuration = new SyncDuration();
  const counters = new NodeCounters({
    tables,
    counters: nftablesCounters(syscalls),
    logger,
    hasEndpoints: endpointMetrics && metricsAddress !== undefined,
    onCommit: (seconds) => syncDuration.observe(seconds),
    now: () => performance.now(),
  });
  const policyCounters = new PolicyCounters({
    table: POLICY_TABLE,
    counters: ruleCounters(syscalls),
    elements: nftablesCounters(syscalls),
    logger,
    now: () => performance.now(),
    time: () => Date.now(),
  });
  const firstSync = new FirstSync({ registry: syncDuration.registry, logger, now: () => performance.now() });
  return { counters, policyCounters, services: new ServiceMetrics(counters), syncDuration, firstSync };
}

/**
 * Serves the metrics at the configured address, in the network namespace of this thread.
 *
 * @returns undefined where no address is configured
 */
export function serveMetrics(
  { metricsAddress: listen, endpointMetrics }: Configuration,
  { counters, policyCounters, services, syncDuration }: NodeMetrics,
  daemon: Pick<Daemon, "status" | "objectProblems" | "staleness" | "restored">,
  parts: {
    readonly ruleset: Pick<Ruleset, "status" | "isReconciled">;
    readonly attachmentFailures: MetricSources["attachmentFailures"];
    readonly nodeRepairs: MetricSources["nodeRepairs"];
    readonly staleFlows: MetricSources["staleFlows"];
    readonly flowLedger: MetricSources["flowLedger"];
    readonly refusedHostPorts: MetricSources["refusedHostPorts"];
    readonly policies: Omit<PolicyMetricSources, "counters">;
    readonly policyReading: PageParts["policyCounters"];
    readonly events: Pick<Events, "counts">;
    readonly logger: Logger;
    readonly clock: Clock;
  },
): MetricsServer | undefined {
  if (listen === undefined) return undefined;
  const {
    ruleset,
    attachmentFailures,
    nodeRepairs,
    staleFlows,
    flowLedger,
    refusedHostPorts,
    policies,
    policyReading,
  } = parts;
  const { events, logger, clock } = parts;
  const { registry } = syncDuration;
  // The status lists all problems, so it is read only once for each request.
  let status = daemon.status();
  addMetrics(registry, {
    daemon: () => status,
    objectProblems: () => daemon.objectProblems(),
    staleness: () => daemon.staleness(),
    restored: () => daemon.restored(),
    attachmentFailures,
    nodeRepairs,
    ruleset: () => ruleset.status(),
    services: () => services.totals(),
    refusedHostPorts,
    drops: () => counters.drops(),
    staleFlows,
    flowLedger,
    policies: { ...policies, counters: policyCounters },
    events: () => events.counts(),
  });
  const server = new MetricsServer({
    listen,
    contentType: registry.contentType,
    page: () => {
      status = daemon.status();
      return metricsPage({
        registry,
        counters: { refresh: () => counters.refresh(ruleset.isReconciled), series: () => counters.series() },
        policyCounters: policyReading,
        hasEndpoints: endpointMetrics,
        clock,
      });
    },
    logger,
    clock,
  });
  server.start();
  return server;
}
