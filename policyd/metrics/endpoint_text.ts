import type { EndpointSeries } from "./endpoint_connections.ts";

const NAME = "drawbridge_service_endpoint_connections_total";
const HELP = "New connections that this node sent to an endpoint of a Service.";
/** So many lines are one piece. */
const LINES = 500;

/**
 * The metric of endpoints in Prometheus' text format 0.0.4, piece by piece: tens of thousands of lines, for which
 * prom-client's one text, made at once of a map for each line, would keep the daemon from its work.
 */
export function* endpointText(series: Iterable<EndpointSeries>): Generator<string, void, void> {
  let text = `# HELP ${NAME} ${HELP}\n# TYPE ${NAME} counter\n`;
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

/** A label's value as the format wants it: backslash, quote and line feed escaped. */
export function escaped(value: string): string {
  return /[\\"\n]/.test(value) ? value.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n") : value;
}
