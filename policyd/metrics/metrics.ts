import process from "node:process";
import { Counter, Gauge, type Registry } from "prom-client";
import type { PolicydStatus } from "../../attachment/policyd_messages.ts";
import type { FailureSeconds } from "../attachments/failures.ts";
import type { RulesetStatus } from "../ruleset/ruleset.ts";
import type { EventCounts } from "../events/event_log.ts";
import type { FlowLedgerCounts } from "../flows/flow_ledger.ts";
import { ofPolicies, type PolicyMetricSources } from "./policy_metrics.ts";
import type { ServiceTotals } from "./service_metrics.ts";

/** The sources of the values; each is called when metrics are requested. */
export interface MetricSources {
  readonly daemon: () => PolicydStatus;
  /** Number of problems reported so far, by object kind. */
  readonly objectProblems: () => ReadonlyMap<string, number>;
  /** Seconds, by resource. */
  readonly staleness: () => ReadonlyMap<string, number>;
  readonly restored: () => ReadonlyMap<string, number>;
  /** For each network and cause of failure seen so far. */
  readonly attachmentFailures: () => readonly FailureSeconds[];
  /** Repairs of the node's network state, by the part that was repaired. */
  readonly nodeRepairs: () => ReadonlyMap<string, number>;
  readonly ruleset: () => RulesetStatus;
  readonly services: () => ServiceTotals;
  readonly refusedHostPorts: () => number;
  /** Dropped packets by reason. */
  readonly drops: () => ReadonlyMap<string, number>;
  /** The number of stale flows that were deleted. */
  readonly staleFlows: () => number;
  /** Undefined where flows are not recorded. */
  readonly flowLedger: () => FlowLedgerCounts | undefined;
  readonly policies: PolicyMetricSources;
  /** Event counts by outcome; undefined without an API server. */
  readonly events: () => EventCounts | undefined;
}

/** A number with its labels. */
type Sample = readonly [labels: Readonly<Record<string, string>>, number];

/**
 * One metric whose value is stored elsewhere, or one for each value of one or several labels. It is a counter if its
 * name ends as Prometheus names counters, and a gauge otherwise.
 */
export interface Description {
  readonly name: string;
  readonly help: string;
  readonly value:
    | (() => number)
    | { readonly label: string; readonly of: () => Iterable<readonly [string, number]> }
    | { readonly labels: readonly string[]; readonly of: () => Iterable<Sample> };
}

/**
 * Adds all metrics except those of single endpoints to a registry. Names and units follow Prometheus; the choice of
 * metrics follows kube-proxy where it has the same (pkg/proxy/metrics/metrics.go).
 */
export function addMetrics(registry: Registry, sources: MetricSources): void {
  const descriptions = [
    ...ofDaemon(sources),
    ...ofSync(sources),
    ...ofServices(sources),
    ...ofFlows(sources),
    ...ofPolicies(sources.policies),
  ];
  for (const description of descriptions) {
    registry.registerMetric(metricOf(description));
  }
}

function metricOf({ name, help, value }: Description): Gauge | Counter {
  const labelNames = typeof value === "function" ? [] : "label" in value ? [value.label] : [...value.labels];
  const samples = (): Iterable<Sample> => {
    if (typeof value === "function") return [[{}, value()]];
    if ("labels" in value) return value.of();
    return [...value.of()].map(([text, number]) => [{ [value.label]: text }, number] as const);
  };
  const configuration = {
    name,
    help,
    labelNames,
    registers: [],
    collect(this: Gauge | Counter) {
      this.reset();
      for (const [labels, number] of samples()) this.inc(labels, number);
    },
  };
  return name.endsWith("_total") ? new Counter(configuration) : new Gauge(configuration);
}

function ofDaemon({
  daemon,
  objectProblems,
  staleness,
  restored,
  attachmentFailures,
  nodeRepairs,
  events,
}: MetricSources): readonly Description[] {
  const start = Date.now() / 1000 - process.uptime();
  return [
    {
      name: "drawbridge_build_info",
      help: "1, with the version of policyd.",
      value: { label: "version", of: () => [[daemon().version, 1]] },
    },
    {
      name: "drawbridge_objects",
      help: "Known objects, by kind.",
      value: { label: "kind", of: () => Object.entries(daemon().objects) },
    },
    {
      name: "drawbridge_objects_read",
      help: "Whether all objects have been read once: 1 or 0.",
      value: () => Number(daemon().isSynced),
    },
    {
      name: "drawbridge_object_problems_total",
      help: "Problems that kept objects from being used unchanged, by the kind of the object, other for files.",
      value: { label: "kind", of: objectProblems },
    },
    {
      name: "drawbridge_kubernetes_events_total",
      help: "Events for the API server by outcome: created, known by an earlier one, suppressed as too many of one object, dropped unwritten.",
      value: { label: "outcome", of: () => Object.entries(events() ?? {}) },
    },
    {
      name: "drawbridge_api_staleness_seconds",
      help: "How long the objects in use may have been out of date; 0 while the API server reports changes.",
      value: { label: "resource", of: staleness },
    },
    {
      name: "drawbridge_api_restored_total",
      help: "Lists of an older state than the known objects, as after a restore of etcd.",
      value: { label: "resource", of: restored },
    },
    {
      name: "drawbridge_problems",
      help: "Current problems, as the status lists them.",
      value: () => daemon().problemCount,
    },
    {
      name: "drawbridge_attachments",
      help: "Pods of this node that are known.",
      value: () => daemon().attachments,
    },
    {
      name: "drawbridge_attachment_failure_seconds",
      help: "For how long pods of a network have failed to be attached, by reason: addresses (the range is full), ports (the bridge is full), daemon (it did not answer), other; 0 after a success.",
      value: {
        labels: ["network", "reason"],
        of: () =>
          attachmentFailures().map(({ network, cause, seconds }) => [{ network, reason: cause }, seconds] as const),
      },
    },
    {
      name: "drawbridge_node_repairs_total",
      help: "Repairs of the node's network state that another program had changed, by part: bridge, setting, address, route, port, neighbour, bypass, reservation (of a pod's address).",
      value: { label: "part", of: nodeRepairs },
    },
    {
      name: "process_start_time_seconds",
      help: "When policyd was started, in seconds since the epoch.",
      value: () => start,
    },
    {
      name: "process_resident_memory_bytes",
      help: "Resident memory.",
      value: () => process.memoryUsage.rss(),
    },
    {
      name: "process_cpu_seconds_total",
      help: "Time of processors in user and kernel mode.",
      value: () => {
        const { user, system } = process.cpuUsage();
        return (user + system) / 1e6;
      },
    },
  ];
}

function ofSync({ ruleset, drops, policies }: MetricSources): readonly Description[] {
  return [
    {
      name: "drawbridge_synced",
      help: "Whether the kernel has the rules for all objects that the daemon knows: 1 or 0.",
      value: () => Number(ruleset().isReconciled && policies.isWorkedOut()),
    },
    {
      name: "drawbridge_elements",
      help: "Elements that our tables should have.",
      value: () => ruleset().elements,
    },
    {
      name: "drawbridge_sync_pending_elements",
      help: "Elements that the kernel does not have as desired yet.",
      value: () => ruleset().pending,
    },
    {
      name: "drawbridge_sync_commits_total",
      help: "Batches that took effect.",
      value: () => ruleset().commits,
    },
    {
      name: "drawbridge_sync_failures_total",
      help: "Batches and reads that the kernel refused.",
      value: () => ruleset().failures,
    },
    {
      name: "drawbridge_sync_repairs_total",
      help: "Objects and elements that another program had changed and that were repaired.",
      value: () => ruleset().repairs,
    },
    {
      name: "drawbridge_sync_table_replacements_total",
      help: "Tables that were written as a whole.",
      value: () => ruleset().replacements,
    },
    {
      name: "drawbridge_dropped_packets_total",
      help: "Packets that our rules dropped, by the reason that stands in the rule's comment.",
      value: { label: "reason", of: drops },
    },
  ];
}

function ofFlows({ flowLedger }: MetricSources): readonly Description[] {
  return [
    {
      name: "drawbridge_flow_ledger_rows",
      help: "Rows of the flow ledger; 0 while flowLedger is false.",
      value: () => flowLedger()?.size ?? 0,
    },
    {
      name: "drawbridge_flow_ledger_lost_total",
      help: "Losses of the flow ledger: rows that made room for others, connections whose end was not awaited, overruns of the kernel's events.",
      value: {
        label: "kind",
        of: () => {
          const { rows = 0, connections = 0, overruns = 0 } = flowLedger() ?? {};
          return Object.entries({ rows, connections, overruns });
        },
      },
    },
  ];
}

function ofServices({ services, refusedHostPorts, staleFlows }: MetricSources): readonly Description[] {
  return [
    {
      name: "drawbridge_ignored_endpoints",
      help: "Addresses of Services' endpoints that no endpoint can have: loopback, link-local, multicast, unspecified.",
      value: () => services().ignoredEndpoints,
    },
    {
      name: "drawbridge_refused_sockets",
      help: "Addresses with ports that Services or Pods claim but do not get.",
      value: {
        label: "claimed_by",
        of: () => Object.entries({ Service: services().refused, Pod: refusedHostPorts() }),
      },
    },
    {
      name: "drawbridge_services_without_local_endpoints",
      help: "Services that drop packets because a traffic policy Local, internal or external, finds endpoints only on other nodes.",
      value: { label: "traffic_policy", of: () => Object.entries(services().withoutLocal) },
    },
    {
      name: "drawbridge_stale_flows_deleted_total",
      help: "Flows that were deleted from connection tracking because their Service or endpoint has gone.",
      value: staleFlows,
    },
  ];
}
