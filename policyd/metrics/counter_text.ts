/** A counter that is printed by this program, not by prom-client. */
export interface TextCounter<L extends string> {
  readonly name: string;
  readonly help: string;
  readonly labels: readonly L[];
}

/** Number of lines in one piece. */
const LINES = 500;

export const ENDPOINT_CONNECTIONS = {
  name: "drawbridge_service_endpoint_connections_total",
  help: "New connections that this node sent to an endpoint of a Service.",
  labels: ["namespace", "service", "port", "protocol", "endpoint"],
} as const;
export const POLICY_RULES = {
  name: "drawbridge_policy_rule_packets_total",
  help: "Packets that fit a policy's rule, by its place in the policy's list: of each connection the first, and of others all.",
  labels: ["policy", "direction", "rule"],
} as const;
export const POLICY_DROPS = {
  name: "drawbridge_policy_dropped_packets_total",
  help: "Packets of pods that policies dropped: isolated and allowed by no rule, or denied by a rule.",
  labels: ["direction", "reason"],
} as const;

/**
 * Yields a counter in Prometheus' text format 0.0.4, piece by piece. It can have tens of thousands of lines: prom-client
 * would build one text from a map for each line, and block the daemon meanwhile.
 *
 * @param series have a member for each label
 * @param value the member with the number
 */
export function* counterText<L extends string, V extends string>(
  { name, help, labels }: TextCounter<L>,
  series: Iterable<Readonly<Record<L, string | number> & Record<V, number>>>,
  value: V,
): Generator<string, void, void> {
  let text = `# HELP ${name} ${help}\n# TYPE ${name} counter\n`;
  let lines = 0;
  for (const one of series) {
    text += `${name}{${labels.map((label) => `${label}="${escaped(String(one[label]))}"`).join()}} ${one[value]}\n`;
    if (++lines % LINES !== 0) continue;
    yield text;
    text = "";
  }
  if (text !== "") yield text;
}

/** Escapes backslash, quote and line feed in a label's value, as the format requires. */
function escaped(value: string): string {
  return /[\\"\n]/.test(value) ? value.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n") : value;
}
