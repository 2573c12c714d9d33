import type { EndpointSeries } from "./endpoint_connections.ts";

/** A counter that is printed by this program, not by prom-client. */
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
/** Number of lines in one piece. */
const LINES = 500;

/**
 * Yields the endpoint metric in Prometheus' text format 0.0.4, piece by piece. It can have tens of thousands of lines:
 * prom-client would build one text from a map for each line, and block the daemon meanwhile.
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

/** Returns the header lines of a counter. */
export function headOf({ name, help }: TextMetric): string {
  return `# HELP ${name} ${help}\n# TYPE ${name} counter\n`;
}

/** Escapes backslash, quote and line feed in a label's value, as the format requires. */
export function escaped(value: string): string {
  return /[\\"\n]/.test(value) ? value.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n") : value;
}
