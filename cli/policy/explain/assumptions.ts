import type { ExplainQuestion } from "./explanation.ts";
import type { Service } from "../../../objects/model.ts";
import type { Direction, Flow, Traffic } from "../../../objects/semantics/policies/flow.ts";
import { isFinished } from "../../../objects/semantics/policies/address_owner.ts";
import type { EndVerdict, EvaluatedFlow } from "../../../objects/semantics/policies/verdict.ts";
import type { End, HostsEnd } from "../../cluster/find_end.ts";
import { UNKNOWN_NODE } from "../../cluster/cluster.ts";
import { shortList } from "../../../objects/printable.ts";
import { locatorIn, placeText } from "../../input/locate.ts";
import { dnsOf, isCutOff } from "../cluster_dns.ts";
import { oversizes, oversizeText } from "../size.ts";
import { type ExplainContext, MOST_HOSTS } from "./context.ts";
import type { Outcome } from "./evaluate_way.ts";
import { type UnknownMatch, unknownMatches } from "./unknown_match.ts";

const MOST_NAMED = 5;

/** Returns remarks on what the answer assumes because files do not say it, and on the most frequent mistake. */
export function assumptionsOf(
  context: ExplainContext,
  { from, to, traffic }: ExplainQuestion,
  outcomes: readonly Outcome[],
): readonly string[] {
  const ends = [from, to];
  return [
    ...ends.flatMap((end) => bareNode(context, end)),
    ...representatives(from, to, outcomes),
    ...servicesMet(context, to, outcomes).flatMap((service) => derivedAssumptions(context, service)),
    ...othersServicesRemark(context, to, outcomes),
    ...portRemark(to, traffic, outcomes),
    ...outsideRemark(from, to, outcomes),
    ...ownNodeRemark(context, from, to, outcomes),
    ...hostPortRemarks(context, to, traffic),
    ...nameRemarks(context, outcomes),
    ...dnsRemark(context, from, to),
    ...unknownNodeRemark(outcomes),
    ...unknownMatchRemarks(context, outcomes),
    ...servicePortRemarks(context, outcomes),
    ...sizeRemarks(context, outcomes),
  ];
}

function bareNode({ cluster }: ExplainContext, { type, name }: End): readonly string[] {
  if (type !== "node" || cluster.manifests.has(`Node ${name.slice("node/".length)}`)) return [];
  return [`${name} is known only from its pods: without a Node object its labels and addresses are not known`];
}

/** Returns remarks about ends of which only representatives were evaluated. */
function representatives(from: HostsEnd, to: End, outcomes: readonly Outcome[]): readonly string[] {
  const evaluated = { from: new Set<string>(), to: new Set<string>() };
  for (const { from: source, to: destination } of outcomes.map((outcome) => outcome.evaluated)) {
    evaluated.from.add(source);
    evaluated.to.add(destination);
  }
  return [
    { end: from, count: evaluated.from.size },
    ...(to.type === "service" ? [] : [{ end: to, count: evaluated.to.size }]),
  ]
    .filter(({ end, count }) => count < end.hosts.length && end.hosts.length > MOST_HOSTS)
    .map(
      ({ end }) => `${end.name} has ${end.hosts.length} pods: of those that policies cannot tell apart two are judged`,
    );
}

function servicesMet({ worlds }: ExplainContext, to: End, outcomes: readonly Outcome[]): readonly Service[] {
  const keys = new Set(
    outcomes.flatMap(({ way }) =>
      way.steps.flatMap(({ verdict }) => (verdict.kind === "pass" ? [] : (verdict.frontend?.service ?? []))),
    ),
  );
  if (to.type === "service") keys.add(to.service.key);
  return [...keys].sort().flatMap((key) => worlds.objects.services.get(key) ?? []);
}

/** Returns remarks about what the input does not say of a Service and its endpoints. */
export function derivedAssumptions({ worlds, cluster }: ExplainContext, service: Service): readonly string[] {
  const derived = worlds.objects.derived.get(service.key);
  const hasAddress = cluster.store.services.get(service.key)?.clusterIps.length !== 0;
  const isNodeUnknown =
    service.internalTrafficPolicy === "Local" &&
    (derived?.slices ?? []).some(({ endpoints }) => endpoints.some(({ nodeName }) => nodeName === ""));
  return [
    ...(derived === undefined
      ? []
      : [
          `Service ${service.key} has no EndpointSlices in the input: its endpoints are the pods that ` +
            `${derived.selector} selects, and those that run count as ready`,
        ]),
    ...(worlds.objects.unknown.has(service.key)
      ? [`Service ${service.key} has no selector, and the input no EndpointSlices of it: its endpoints are not known`]
      : []),
    ...[...Map.groupBy(derived?.withoutPort ?? [], ({ targetPort }) => targetPort)].map(
      ([targetPort, pods]) =>
        `Service ${service.key} has targetPort ${targetPort}, and no port has this name in ${someNames(pods.map(({ pod }) => pod))}`,
    ),
    ...(isNodeUnknown
      ? [
          `Service ${service.key} has internalTrafficPolicy Local, and it is not known on which nodes the pods run: all are taken to be on one`,
        ]
      : []),
    ...(hasAddress || service.isHeadless || service.type === "ExternalName"
      ? []
      : [`Service ${service.key} has no cluster IP in the input: the API server gives it one`]),
    ...(worlds.oversized.get(service.key)?.problems ?? []).map((problem) => `on nodes ${problem}`),
  ];
}

/** Another program may treat Services differently from Kubernetes' rules. */
function othersServicesRemark(context: ExplainContext, to: End, outcomes: readonly Outcome[]): readonly string[] {
  if (context.worlds.settings.isServing || servicesMet(context, to, outcomes).length === 0) return [];
  return ["by --config another program serves Services: what is said of them is what Kubernetes expects of it"];
}

/** Returns the ports of a Service, where the question is about another one. */
function portRemark(to: End, traffic: Traffic | undefined, outcomes: readonly Outcome[]): readonly string[] {
  if (to.type !== "service" || to.service.isHeadless || traffic?.port === undefined) return [];
  const { ports, key } = to.service;
  // The address may belong to another Service at that port.
  const verdicts = outcomes.flatMap(({ way }) => way.steps.at(-1)?.verdict ?? []);
  if (verdicts.some((verdict) => verdict.kind !== "pass" && verdict.frontend !== undefined)) return [];
  if (ports.some(({ port, protocol }) => port === traffic.port && protocol === traffic.protocol)) return [];
  const known = ports.map(({ port, protocol, name }) => `${port}/${protocol}${name === "" ? "" : ` (${name})`}`);
  return [`Service ${key} has ${known.length === 0 ? "no ports" : `${known.join(", ")}, and no other port`}`];
}

/** A node that replaces the source address is itself the source for the policies of all other nodes. */
function unknownNodeRemark(outcomes: readonly Outcome[]): readonly string[] {
  const isUnknown = outcomes.some(
    ({ way }) => way.arrival?.masquerade?.masqueraded === true && way.steps.at(-1)?.node === UNKNOWN_NODE,
  );
  return isUnknown
    ? ["the input has no nodes: policies are asked as those of the node are that takes the connection in"]
    : [];
}

/** NetworkPolicies never block what a pod sends to its own node and receives from it. */
function ownNodeRemark(
  { cluster }: ExplainContext,
  from: HostsEnd,
  to: End,
  outcomes: readonly Outcome[],
): readonly string[] {
  // ClusterNetworkPolicies also stop what a pod sends to its node.
  const denied = outcomes.filter(
    ({ evaluated: { flows, reasons } }) =>
      !reasons.allowed && flows[0] && flows[0].egress.decision.type !== "cluster rule",
  );
  if (denied.length === 0) return [];
  const isNode = ({ hosts }: Pick<HostsEnd, "hosts">): boolean =>
    hosts.some((host) => host.type === "node" || (host.type === "pod" && host.pod.hostNetwork));
  const endpoints = denied.flatMap(({ way }) => way.arrival?.destination ?? []);
  const reached = to.type === "service" ? { name: `each endpoint of ${to.name}`, hosts: endpoints } : to;
  const { policePodToOwnNode } = cluster.index.options;
  const homeless = [
    ...(policePodToOwnNode ? [] : [{ end: from, other: reached }]),
    { end: reached, other: from },
  ].filter(
    ({ end, other }) =>
      isNode(other) &&
      end.hosts.some((host) => host.type === "pod" && !host.pod.hostNetwork && host.pod.nodeName === undefined),
  );
  return homeless.map(
    ({ end }) =>
      `it is not known on which node ${end.name} runs; NetworkPolicies do not stop its traffic with that node`,
  );
}

/** A node's port may lead to a pod, whose policies then decide. */
function hostPortRemarks({ cluster }: ExplainContext, to: End, traffic: Traffic | undefined): readonly string[] {
  if (to.type === "service") return [];
  const nodes = to.hosts.flatMap((host) => (host.type === "node" ? host.name : []));
  if (nodes.length === 0) return [];
  return [...cluster.manifests.values()].flatMap(({ object, hostPorts = [] }) => {
    if (object.kind !== "Pod" || isFinished(object) || !nodes.includes(object.nodeName ?? nodes[0] ?? "")) return [];
    const where = object.nodeName === undefined ? "its node" : `node/${object.nodeName}`;
    return hostPorts
      .filter(
        ({ protocol, hostPort }) =>
          traffic === undefined || (traffic.protocol === protocol && traffic.port === hostPort),
      )
      .map(
        ({ protocol, hostPort, containerPort, hostIp }) =>
          `port ${hostPort}/${protocol} of ${hostIp === undefined ? where : `${hostIp} on ${where}`} is a host port of ${object.key}: it leads to port ` +
          `${containerPort} of that pod, whose policies decide`,
      );
  });
}

/** A cluster IP has no route from outside of the cluster, unless somebody has made one. */
function outsideRemark(from: HostsEnd, to: End, outcomes: readonly Outcome[]): readonly string[] {
  const isOutside = from.hosts.some(({ type }) => type === "outside") && to.type === "service";
  const isClusterIp = outcomes.some(({ way }) =>
    way.steps.some(({ verdict }) => verdict.kind !== "pass" && verdict.frontend?.type === "ClusterIP"),
  );
  if (!isOutside || !isClusterIp) return [];
  return [
    "from outside of the cluster this is a cluster IP: it takes a route to the nodes that the input does not show",
  ];
}

/** Returns outcomes, with the parts of joined ones in their place. */
function eachOf(outcomes: readonly Outcome[]): readonly Outcome[] {
  return outcomes.flatMap((one) => one.each ?? one);
}

/** Yields the questions to policies at the two ends, with the answers. */
function* asked(outcomes: readonly Outcome[]): Generator<Asked> {
  for (const { way, evaluated } of eachOf(outcomes)) {
    const [atSource, atDestination] = evaluated.flows;
    const { arrival } = way;
    if (arrival === undefined || atSource === undefined || atDestination === undefined) continue;
    yield { direction: "egress", flow: arrival.egress, evaluated: atSource, way };
    yield { direction: "ingress", flow: arrival.ingress, evaluated: atDestination, way };
  }
}

/**
 * Returns the remarks on what may turn the answer: a rule that would match if the input had what it lacks, and deny what
 * is allowed or allow what is denied; a pod whose node is not known; a policy beyond the bounds of nodes, which do not
 * allow what it says.
 */
export function turningRemarks(
  context: ExplainContext,
  { from, to, traffic }: ExplainQuestion,
  outcomes: readonly Outcome[],
): readonly string[] {
  const allowed = outcomes.filter(({ evaluated }) => evaluated.reasons.allowed);
  // Without a port the answer is that anything is allowed.
  if (traffic === undefined && allowed.length > 0) return [];
  const denied = eachOf(outcomes).filter(({ evaluated }) => !evaluated.reasons.allowed && evaluated.flows.length > 0);
  // A denied connection is allowed only if each end that denies it turns.
  const turning = denied.filter((outcome) =>
    [...asked([outcome])].every(
      (one) => one.evaluated[one.direction].isAllowed || matchesOf(context, one).some(({ isDenying }) => !isDenying),
    ),
  );
  return [
    ...unknownMatchRemarks(context, allowed, ({ isDenying }) => isDenying),
    ...unknownMatchRemarks(context, turning, ({ isDenying }) => !isDenying),
    ...ownNodeRemark(context, from, to, denied),
    ...sizeRemarks(context, allowed, ({ decision }) => (decision.type === "rule" ? [decision.rule.policy] : [])),
  ];
}

/** A question to the policies of one end, with the answer. */
interface Asked {
  readonly direction: Direction;
  readonly flow: Flow;
  readonly evaluated: EvaluatedFlow;
  readonly way: Outcome["way"];
}

function matchesOf({ cluster }: ExplainContext, { direction, evaluated, flow }: Asked): readonly UnknownMatch[] {
  return unknownMatches(cluster, direction, flow, evaluated[direction]);
}

function unknownMatchRemarks(
  context: ExplainContext,
  outcomes: readonly Outcome[],
  isMeant: (one: UnknownMatch) => boolean = () => true,
): readonly string[] {
  const { cluster } = context;
  const names = new Map((cluster.newPods ?? []).map(({ pod, name }) => [pod.key, name]));
  const found = [...asked(outcomes)].flatMap((question) =>
    matchesOf(context, question)
      .filter(isMeant)
      .map((one) => ({ ...one, of: names.get(one.of) ?? one.of })),
  );
  const byRule = Map.groupBy(found, (one) => {
    const need = one.lacks === "address" ? "is for addresses" : "depends on labels of namespaces";
    return `${ruleWithPlace(cluster, one)} ${need}, and taken not to match`;
  });
  return [...byRule].map(([rule, all]) => {
    const ofThese = all.map(({ of }) => of);
    return all[0]?.lacks === "namespace"
      ? `no Namespace object was read of ${shortList([...new Set(ofThese)], MOST_NAMED)}: ${rule}`
      : `no address is known of ${someNames(ofThese)}: ${rule}`;
  });
}

/** Returns remarks on addresses that are allowed once DNS has given them to the pod for a name of a policy. */
function nameRemarks({ cluster }: ExplainContext, outcomes: readonly Outcome[]): readonly string[] {
  const found = outcomes.flatMap(({ evaluated }) => evaluated.flows[0]?.egress.byName ?? []);
  const texts = found.map(({ policy, rule, names }) => {
    const kind = policy.includes("/") ? "NetworkPolicy" : "ClusterNetworkPolicy";
    const place = ruleWithPlace(cluster, { policy: `${kind} ${policy}`, direction: "egress", rule });
    return `it depends on DNS: ${place} allows addresses that DNS has given the pod for ${names.join(", ")}`;
  });
  return [...new Set(texts)];
}

/** A domain name is of use only to pods that may ask DNS for it. */
function dnsRemark({ cluster }: ExplainContext, from: HostsEnd, to: End): readonly string[] {
  if (to.type === "service" || !to.hosts.some((host) => host.type === "outside" && host.asked !== undefined)) return [];
  // Pods always reach the node's own DNS (POL-72).
  if (cluster.index.options.nodeLocalDNS.length > 0) return [];
  const dns = dnsOf(cluster);
  const pods = from.hosts.flatMap((host) => (host.type === "pod" && dns.index.pods.has(host.pod.key) ? host.pod : []));
  const cut = pods.filter((pod) => isCutOff(dns, pod)).map(({ key }) => key);
  return cut.length === 0
    ? []
    : [`policies do not let ${someNames(cut)} ask the cluster's DNS, which gives the address`];
}

/**
 * Returns remarks on policies that exceed the bounds of nodes, which the answer does not consider.
 *
 * @param policiesOf the keys of the policies that matter of a verdict
 */
function sizeRemarks(
  { cluster }: ExplainContext,
  outcomes: readonly Outcome[],
  policiesOf: (verdict: EndVerdict) => readonly string[] = ({ isolatedBy }) => isolatedBy,
): readonly string[] {
  const meant = new Set(
    [...asked(outcomes)].flatMap(({ direction, evaluated }) =>
      policiesOf(evaluated[direction]).map((key) => `${direction} ${key}`),
    ),
  );
  return oversizes(cluster.index)
    .filter(({ policy, direction }) => meant.has(`${direction} ${policy.key}`))
    .map(oversizeText);
}

function someNames(names: readonly string[]): string {
  const unique = [...new Set(names)];
  return unique.length > MOST_NAMED ? `${unique.length} pods` : unique.join(", ");
}

function ruleWithPlace(
  { manifests }: ExplainContext["cluster"],
  { policy, direction, rule }: Pick<UnknownMatch, "policy" | "direction" | "rule">,
): string {
  return placeText(locatorIn(manifests)(policy, direction, rule));
}

/** Returns remarks on rules with the Service's port, where policies see the pod's (POL-34). */
function servicePortRemarks({ cluster }: ExplainContext, outcomes: readonly Outcome[]): readonly string[] {
  const ports = new Map<string, Set<number>>();
  for (const { direction, flow, evaluated, way } of asked(outcomes)) {
    const verdict = way.steps.at(-1)?.verdict;
    const nearest = evaluated[direction].nearest;
    if (verdict?.kind !== "translate" || nearest === undefined || flow.port === undefined) continue;
    const { port, service } = verdict.frontend;
    const isMeant = nearest.failed.some((one) => one.type === "port" && one.from <= port && port <= one.to);
    if (!isMeant || flow.port === port) continue;
    const rule = ruleWithPlace(cluster, { policy: `NetworkPolicy ${nearest.policy}`, direction, rule: nearest.rule });
    const text = `${rule} names port ${port} of Service ${service}: policies see the port of the pod`;
    ports.set(text, (ports.get(text) ?? new Set()).add(flow.port));
  }
  return [...ports].map(([text, seen]) => `${text}, ${[...seen].join(" or ")}`);
}
