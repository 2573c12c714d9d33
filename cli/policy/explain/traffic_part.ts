import type { PortRange } from "../../../kernel/ip/port_range.ts";
import type { Protocol } from "../../../objects/model.ts";
import type { Direction, FlowEnd, FlowEnds, Traffic } from "../../../objects/semantics/policies/flow.ts";
import { PROTOCOLS } from "../../../objects/protocol.ts";
import { type ConnectionSet, dividedAt, merged, ofPorts } from "../connections/connection_set.ts";
import { DNS_PORT } from "../../../objects/domain_name.ts";
import type { PortPattern } from "../../../objects/semantics/policies/indexed_policy.ts";
import type { PodEntry, PolicyIndex } from "../../../objects/semantics/policies/policy_index.ts";

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
    for (const ports of dividedAt(changesOf(protocol))) yield { traffic: { protocol, port: ports.first }, ports };
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

/**
 * Returns the ports at which the verdict about two ends, or its reason, may change. Between two of them nothing
 * changes, since no relevant rule names a port there.
 */
export function changingPorts(
  index: PolicyIndex,
  { source, destination }: FlowEnds,
  protocol: Protocol,
): readonly number[] {
  const receiver = entryOf(index, destination);
  // No NetworkPolicy decides about the port of the node's own DNS server (POL-72).
  const hasDns = index.options.nodeLocalDNS.length > 0;
  const patterns = [...patternsOf(entryOf(index, source), "egress"), ...patternsOf(receiver, "ingress")];
  return [...(hasDns ? [DNS_PORT, DNS_PORT + 1] : []), ...patterns.flatMap((one) => pointsOf(one, protocol, receiver))];
}

function patternsOf(entry: PodEntry | undefined, direction: Direction): readonly PortPattern[] {
  const profile = entry?.subject?.profile[direction];
  if (profile === undefined) return [];
  const policies = [...profile.admin, ...profile.isolating, ...profile.shadow, ...profile.baseline];
  return policies.flatMap(({ rules }) => rules[direction].flatMap(({ ports }) => ports ?? []));
}

function entryOf(index: PolicyIndex, end: FlowEnd): PodEntry | undefined {
  const owner = end.type === "address" ? index.owners.get(end.address)?.[0] : end;
  return owner?.type === "pod" ? index.pods.get(owner.key) : undefined;
}

/** Returns the first port that matches a pattern, and the first one after it that does not. */
function pointsOf(pattern: PortPattern, protocol: Protocol, receiver: PodEntry | undefined): readonly number[] {
  if (pattern.protocol !== undefined && pattern.protocol !== protocol) return [];
  if (pattern.port === undefined) return [];
  if (typeof pattern.port === "number") return [pattern.port, (pattern.endPort ?? pattern.port) + 1];
  const named = (receiver?.pod.ports ?? []).filter(({ name }) => name === pattern.port);
  return named.flatMap(({ port }) => [port, port + 1]);
}
