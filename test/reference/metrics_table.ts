import { Counter, Gauge, Histogram, Registry } from "prom-client";
import { ENDPOINT_CONNECTIONS, POLICY_DROPS, POLICY_RULES } from "../../policyd/metrics/counter_text.ts";
import { addMetrics, type MetricSources } from "../../policyd/metrics/metrics.ts";
import { PolicySums } from "../../policyd/metrics/policy_sums.ts";
import { SyncTimes } from "../../policyd/metrics/sync_times.ts";
import { tableOf } from "./table.ts";

export const METRIC_COLUMNS = ["metric", "labels", "what it tells"] as const;

/** A metric that the daemon exports. */
export interface ExportedMetric {
  readonly name: string;
  readonly type: string;
  readonly labels: readonly string[];
  readonly help: string;
}

/** Sources without values: only descriptions are read here. */
const NOBODY: MetricSources = {
  daemon: () => unasked(),
  objectProblems: () => unasked(),
  staleness: () => unasked(),
  restored: () => unasked(),
  attachmentFailures: () => unasked(),
  nodeRepairs: () => unasked(),
  ruleset: () => unasked(),
  services: () => unasked(),
  refusedHostPorts: () => unasked(),
  drops: () => unasked(),
  staleFlows: () => unasked(),
  flowLedger: () => unasked(),
  policies: {
    isWorkedOut: () => unasked(),
    notices: { isInForce: false, states: () => unasked() },
    counters: { sums: new PolicySums(), lastCommit: 0 },
    counts: undefined,
  },
  events: () => unasked(),
};

function unasked(): never {
  throw new Error("a description asks for no value");
}

/** Returns all metrics that the daemon can export, sorted by name. */
export function exportedMetrics(): readonly ExportedMetric[] {
  const registry = new Registry();
  addMetrics(registry, NOBODY);
  const { registry: own } = new SyncTimes({ logger: { info: () => {} }, now: () => 0 });
  const registered = [...own.getMetricsAsArray(), ...registry.getMetricsAsArray()];
  const metrics = [
    ...registered.map((metric) => ({ ...metric, type: typeOf(metric), labels: labelsOf(metric) })),
    ...[ENDPOINT_CONNECTIONS, POLICY_RULES, POLICY_DROPS].map((metric) => ({ ...metric, type: "counter" })),
  ].map(({ name, type, help, labels }) => ({ name, type, help, labels }));
  return metrics.sort((a, b) => (a.name < b.name ? -1 : 1));
}

function typeOf(metric: object): string {
  if (metric instanceof Counter) return "counter";
  if (metric instanceof Gauge) return "gauge";
  if (metric instanceof Histogram) return "histogram";
  throw new Error("a metric of another type: name it here");
}

/** Returns a metric's labels, which prom-client's types do not expose. */
function labelsOf(metric: object): readonly string[] {
  const labels: unknown = "labelNames" in metric ? metric.labelNames : [];
  return Array.isArray(labels) ? labels.map(String) : [];
}

export function metricsTable(): string {
  const rows = exportedMetrics().map(({ name, labels, help }) => [
    `\`${name}\``,
    labels.map((label) => `\`${label}\``).join(", "),
    help,
  ]);
  return tableOf(METRIC_COLUMNS, rows);
}
