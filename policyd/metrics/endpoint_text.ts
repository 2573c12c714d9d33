import type { EndpointSeries } from "./endpoint_connections.ts";

/** A counter that is printed here, not by prom-client. */
export interface TextMetric {
  readonly name: string;
  readonly help: string;
  readonly labels: readonly string[];
}

export const ENDPOINT_CONNECTIONS: TextMetric = {
  name: "drawbridge_service_endpoint_connections_total",
  help: "New connections that this node sent to an endpoint of a Service.",
  labels: ["namespace", "service", "port", "protocol", "endpoint"],
};
const { name: NAME } = ENDPOINT_CONNECTIONS;
/** So many lines are one piece. */
const LINES = 500;

/**
 * The metric of endpoints in Prometheus' text format 0.0.4, piece by piece: tens of thousands of lines, for which
 * prom-client's one text, made at once of a map for each line, would keep the daemon from its work.
 */
export function* endpointText(series: Iterable<EndpointSeries>): Generator<string, void, void> {
  let text = headOf(ENDPOINT_CONNECTIONS);
  let lines = 0;
  for (const { labels, connections } of series) {
    const { namespace, service, port, protocol, endpoint } = labels;
    text +=
      `${NAME}{namespace="${escaped(namespace)}",service="${escaped(service)}",port="${escaped(port)}",` +
      `protocol="${escaped(protocol)}",endpoint="${escaped(endpoint)}"} ${connections}\n`;
    if (++lines % LINES !== 0) continue;
    yield text;
    text = "";
  }
  if (text !== "") yield text;
}

/** What stands before the lines of a counter. */
export function headOf({ name, help }: TextMetric): string {
  return `# HELP ${name} ${help}\n# TYPE ${name} counter\n`;
}

/** A label's value as the format wants it: backslash, quote and line feed escaped. */
export function escaped(value: string): string {
  return /[\\"\n]/.test(value) ? value.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n") : value;
}
