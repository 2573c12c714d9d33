import type { PortRange } from "../../../kernel/ip/port_range.ts";
import type { Protocol } from "../../../objects/model.ts";
import type { Traffic } from "../../../objects/semantics/policies/flow.ts";
import { PROTOCOLS } from "../../../objects/protocol.ts";
import { type ConnectionSet, LAST_PORT, merged, ofPorts } from "../connections/connection_set.ts";

/** Traffic for which policies give one answer, with an example of it. */
export interface TrafficPart {
  readonly traffic: Traffic;
  /** Undefined for ICMP. */
  readonly ports: PortRange | undefined;
}

/**
 * Yields all traffic, in parts.
 *
 * @param changesOf the ports of a protocol at which an answer may change
 */
export function* trafficParts(changesOf: (protocol: Protocol) => readonly number[]): Generator<TrafficPart> {
  for (const protocol of PROTOCOLS) {
    const starts = [...new Set([1, ...changesOf(protocol)])].filter((port) => port >= 1 && port <= LAST_PORT);
    starts.sort((a, b) => a - b);
    for (const [i, first] of starts.entries()) {
      const last = (starts[i + 1] ?? LAST_PORT + 1) - 1;
      yield { traffic: { protocol, port: first }, ports: { first, last } };
    }
  }
  yield { traffic: { protocol: "ICMP" }, ports: undefined };
}

/** Returns the connections in some parts. */
export function connectionsOf(parts: readonly TrafficPart[]): ConnectionSet {
  const rangesOf = (protocol: Protocol): readonly PortRange[] =>
    merged(
      parts.flatMap(({ traffic, ports }) => (traffic.protocol === protocol && ports !== undefined ? [ports] : [])),
    );
  return ofPorts(
    rangesOf,
    parts.some(({ ports }) => ports === undefined),
  );
}
