import { type Family, familyOf } from "../../../kernel/ip/address.ts";
import type { Service, Protocol } from "../../../objects/model.ts";
import type { Traffic, Direction, FlowEnd, FlowEnds } from "../../../objects/semantics/policies/flow.ts";
import {
  type End,
  flowEndOf,
  hasAddress,
  type Host,
  hostAt,
  hostName,
  type HostsEnd,
  nodeOf,
  type ServiceEnd,
} from "../../cluster/find_end.ts";
import { type ServiceReport, serviceReport } from "./service_report.ts";
import { connectionText, type ConnectionSet, dividedAt, merged, ofPorts } from "../connections/connection_set.ts";
import type { ExplainContext, NodesThatMatter } from "./context.ts";
import type { Case, EndpointReport, ExplainQuestion, Explanation } from "./explanation.ts";
import { evaluateWay, withoutNearest, mergeOutcomes, type Outcome } from "./evaluate_way.ts";
import { assumptionsOf, turningRemarks } from "./assumptions.ts";
import { familiesBetween, headlessHosts, NO_FAMILY, waysToHost, waysToService } from "./paths/targets.ts";
import {
  type ConnectionPath,
  directWay,
  missingPod,
  type Stop,
  stoppedWay,
  unknownEndpoints,
} from "./paths/connection_path.ts";
import type { PortRange } from "../../../kernel/ip/port_range.ts";
import { PROTOCOLS } from "../../../objects/protocol.ts";
import { DNS_PORT } from "../../../objects/domain_name.ts";
import type { PortPattern } from "../../../objects/semantics/policies/indexed_policy.ts";
import type { PodEntry, PolicyIndex } from "../../../objects/semantics/policies/policy_index.ts";

/**
 * Explains why a connection is allowed or denied, without ways in: every way it may take, for each pod of a workload,
 * each address family and each endpoint of a Service, evaluated at both ends. Ways with equal reasons form one case.
 *
 * @throws DrawbridgeError ERR_OBJECT for a Service that is only a name
 */
export function explain(context: ExplainContext, question: ExplainQuestion): Explanation {
  const { from, to, traffic } = question;
  const isToService = to.type === "service";
  const sources = context.few(from.hosts, (host) => ({ host }), nodesThatMatterTo(context, to));
  const target = (isToService ? headlessHosts(context, to) : undefined) ?? to;
  const outcomes =
    target === "nobody"
      ? sources.map((source) => stoppedOutcome(context, source, noEndpoint(context, to), question))
      : sources.flatMap((source) => outcomesFor(context, source, target, question));
  const answers = mergeOutcomes(outcomes);
  // Without a port, people look for what is allowed.
  const cases = traffic === undefined ? answers.toSorted((a, b) => Number(b.allowed) - Number(a.allowed)) : answers;
  const allowed = cases.filter((one) => one.allowed).length;
  const doubts = turningRemarks(context, question, outcomes);
  const isWhole = allowed === cases.length && doubts.length === 0;
  const isAllowed = allowed > 0 && (traffic === undefined || isWhole);
  return {
    allowed: isAllowed,
    partly: traffic !== undefined && allowed > 0 && !isAllowed,
    from: endpointReport(from, sources),
    to: isToService ? serviceEndReport(to, cases) : endpointReport(to, destinationsOf(context, from, to)),
    port: traffic?.port ?? null,
    protocol: traffic?.protocol ?? null,
    services: serviceReports(context, isToService, outcomes),
    cases,
    waysIn: [],
    remarks: assumptionsOf(context, question, outcomes),
    ...undecided(outcomes, doubts),
  };
}

/** Returns what decides where the input does not: domain names, and what is missing. */
function undecided(outcomes: readonly Outcome[], doubts: readonly string[]): Pick<Explanation, "names" | "unknown"> {
  const names = new Set(outcomes.flatMap(({ evaluated }) => evaluated.flows[0]?.egress.byName?.names ?? []));
  const missing = outcomes.flatMap(({ way }) => (way.isUnknown ? (way.stopped ?? []) : []));
  const unknown = new Set([...missing, ...doubts]);
  return {
    ...(names.size === 0 ? {} : { names: [...names].sort() }),
    ...(unknown.size === 0 ? {} : { unknown: [...unknown] }),
  };
}

function outcomesFor(
  context: ExplainContext,
  source: Host,
  target: HostsEnd | ServiceEnd,
  question: ExplainQuestion,
): readonly Outcome[] {
  const { from, to, traffic } = question;
  const unknownSource = missingPod(context, source);
  if (unknownSource !== undefined) return [stoppedOutcome(context, source, unknownSource, question)];
  if (target.type === "service") {
    const asked = traffic === undefined ? portsAt(context, target) : [traffic];
    return asked.flatMap((one) => {
      const { protocol, port } = one;
      const known: Traffic = port === undefined ? { protocol } : { protocol, port };
      return waysToService(context, source, target, known).map((way) =>
        outcomeOf(context, way, to.name, portsOf(way, known)),
      );
    });
  }
  // Between pods of one workload, the connections to others are of interest: a pod always reaches itself.
  const isAmongOthers = from.hosts.length > 1;
  const destinations = destinationsOf(context, from, target).filter(
    (one) => !isAmongOthers || one.type !== "pod" || source.type !== "pod" || one.pod.key !== source.pod.key,
  );
  const pinned = target.address ?? from.address;
  return destinations.flatMap((destination) => {
    const unknown = missingPod(context, destination);
    if (unknown !== undefined) return stoppedOutcome(context, source, unknown, question);
    const families = familiesBetween(context, source, destination, pinned === undefined ? undefined : familyOf(pinned));
    if (families.length === 0) return stoppedOutcome(context, source, NO_FAMILY, question);
    if (traffic === undefined) return everythingBetween(context, source, destination, families);
    return waysToHost(context, source, destination, traffic, families).map((way) =>
      outcomeOf(context, way, to.name, portsOf(way, traffic)),
    );
  });
}

/** Returns why a headless Service leads nowhere. */
function noEndpoint(context: ExplainContext, to: End): Stop {
  const stop = to.type === "service" ? unknownEndpoints(context, to.service.key) : undefined;
  return stop ?? { stopped: "headless, and no endpoint is ready" };
}

/** Returns a Service's ports; for an address, the ports of every Service with it, since several may share one. */
function portsAt({ worlds }: ExplainContext, { service, address }: ServiceEnd): Service["ports"] {
  if (address === undefined) return service.ports;
  const services = [...worlds.objects.services.values()].filter((one) => hasAddress(one, address));
  const all = services.flatMap(({ ports }) => ports);
  return [...new Map(all.map((one) => [`${one.port}/${one.protocol}`, one])).values()];
}

function destinationsOf(context: ExplainContext, from: HostsEnd, { hosts }: HostsEnd): readonly Host[] {
  return context.few(hosts, (host) => ({ host }), nodesThatMatterTo(context, from));
}

/** Returns everything that two hosts may send each other, in parts with equal reasons. */
function everythingBetween(
  context: ExplainContext,
  source: Host,
  destination: Host,
  families: readonly (Family | undefined)[],
): readonly Outcome[] {
  const { cluster } = context;
  const ends = { source: flowEndOf(source), destination: flowEndOf(destination) };
  return families.flatMap((family) => {
    const parts = [...trafficParts((protocol) => changingPorts(cluster.index, ends, protocol))].map((part) => {
      const way = directWay(source, destination, part.traffic, family);
      return { part, outcome: outcomeOf(context, way, hostName(destination), []) };
    });
    const groups = Map.groupBy(parts, ({ outcome }) => JSON.stringify(withoutNearest(outcome.evaluated.reasons)));
    return [...groups.values()].flatMap((group): readonly Outcome[] => {
      const [first] = group;
      if (first === undefined) return [];
      const { evaluated } = first.outcome;
      // Each of several ports has its own nearest rule.
      const reasons = group.length === 1 ? evaluated.reasons : withoutNearest(evaluated.reasons);
      const connections = connectionText(connectionsOf(group.map(({ part }) => part))).split(",");
      const each = group.map(({ outcome }) => outcome);
      return [{ ...first.outcome, evaluated: { ...evaluated, reasons }, connections, each }];
    });
  });
}

function outcomeOf(
  context: ExplainContext,
  way: ConnectionPath,
  target: string,
  connections: readonly string[],
): Outcome {
  return { way, evaluated: evaluateWay(context.cluster, way, target), connections };
}

function stoppedOutcome(
  context: ExplainContext,
  source: Host,
  because: Stop,
  { to, traffic }: ExplainQuestion,
): Outcome {
  const way = stoppedWay(source, because);
  return outcomeOf(context, way, to.name, traffic === undefined ? ["all"] : portsOf(way, traffic));
}

/** Returns the port at the destination. */
function portsOf({ arrival, steps }: ConnectionPath, traffic: Traffic): readonly string[] {
  const port = arrival?.ingress.port ?? steps.at(-1)?.packet.destinationPort ?? traffic.port;
  return [port === undefined ? "ICMP" : `${port}/${traffic.protocol}`];
}

function serviceReports(
  { cluster, worlds }: ExplainContext,
  isToService: boolean,
  outcomes: readonly Outcome[],
): readonly ServiceReport[] {
  // If another node's Services take a packet, the report of its own node is of no interest.
  const steps = new Set(outcomes.flatMap(({ way }) => way.steps.slice(-1)));
  const reports = new Map<string, ServiceReport>();
  for (const { node, verdict } of steps) {
    if (verdict.kind === "pass" && !isToService && verdict.nearMisses.length === 0) continue;
    const report = serviceReport(cluster, { node, verdict }, worlds.objects.derived, false);
    const key = JSON.stringify({ ...report, nodes: [] });
    const nodes = new Set([...(reports.get(key)?.nodes ?? []), ...report.nodes]);
    reports.set(key, { ...report, nodes: [...nodes].sort() });
  }
  return [...reports.values()];
}

/** Returns a Service as an end, with the endpoints that ways lead to. */
function serviceEndReport({ name }: ServiceEnd, cases: readonly Case[]): EndpointReport {
  const hosts = [...new Set(cases.flatMap((one) => (one.egress === null ? [] : one.to)))];
  return { name, type: "service", hosts, count: hosts.length };
}

function endpointReport({ name, type, hosts }: HostsEnd, evaluated: readonly Host[]): EndpointReport {
  return { name, type, hosts: evaluated.map(hostName), count: hosts.length };
}

/**
 * Returns the nodes on which a pod's location makes a difference towards an end. These are the nodes that are part of
 * the end, directly or by pods of the host's network, since policies never separate a pod from its node (POL-07); for a
 * Service that chooses endpoints by node, all nodes.
 */
function nodesThatMatterTo(context: ExplainContext, end: End): NodesThatMatter {
  return end.type === "service" ? ofService(context, end.service) : nodesOf(end.hosts);
}

function ofService({ cluster, worlds }: ExplainContext, service: Service): NodesThatMatter {
  const policies = [service.internalTrafficPolicy, service.externalTrafficPolicy];
  const slices = worlds.objects.endpointSlices.filter(
    ({ namespace, serviceName }) => namespace === service.namespace && serviceName === service.name,
  );
  const endpoints = slices.flatMap((slice) => slice.endpoints);
  const isNarrowed = endpoints.some(({ zoneHints, nodeHints }) => zoneHints !== undefined || nodeHints !== undefined);
  if (policies.includes("Local") || isNarrowed) return "all";
  return nodesOf(endpoints.map(({ address }) => hostAt(cluster, address)));
}

function nodesOf(hosts: readonly Host[]): ReadonlySet<string> {
  const isNode = (host: Host): boolean => host.type === "node" || (host.type === "pod" && host.pod.hostNetwork);
  return new Set(hosts.filter(isNode).flatMap((host) => nodeOf(host) ?? []));
}

/** Traffic for which policies give one answer, with an example of it. */
interface TrafficPart {
  readonly traffic: Traffic;
  /** Undefined for ICMP. */
  readonly ports: PortRange | undefined;
}

/**
 * Yields all traffic, in parts.
 *
 * @param changesOf the ports of a protocol at which an answer may change
 */
function* trafficParts(changesOf: (protocol: Protocol) => readonly number[]): Generator<TrafficPart> {
  for (const protocol of PROTOCOLS) {
    for (const ports of dividedAt(changesOf(protocol))) yield { traffic: { protocol, port: ports.first }, ports };
  }
  yield { traffic: { protocol: "ICMP" }, ports: undefined };
}

/** Returns the connections in some parts. */
function connectionsOf(parts: readonly TrafficPart[]): ConnectionSet {
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
function changingPorts(index: PolicyIndex, { source, destination }: FlowEnds, protocol: Protocol): readonly number[] {
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
