import { BlockList, isIPv6 } from "node:net";
import type {
  RawCluster,
  RawClusterPeer,
  RawClusterPolicy,
  RawClusterPort,
  RawClusterRule,
  RawExpression,
  RawFlow,
  RawLabels,
  RawNetworkPolicy,
  RawPeer,
  RawPod,
  RawPort,
  RawSelector,
} from "./raw_cluster.ts";

export interface ReadingOptions {
  /** The addresses where a node's own DNS cache listens. */
  readonly nodeLocalDNS?: readonly string[];
  /** Whether NetworkPolicies apply to what a pod sends to its own node. */
  readonly policePodToOwnNode?: boolean;
}

/**
 * Evaluates a flow by a second implementation of Kubernetes' documents: from the raw objects, with no index and no
 * gate, and without code of the evaluator. It is slow and simple on purpose; v1 policies do not apply between a pod and
 * its own node, except by option to what the pod sends.
 */
export function secondReading(
  cluster: RawCluster,
  flow: RawFlow,
  options: ReadingOptions = {},
): "allowed" | "denied" | "impossible" {
  const ends = endsOf(cluster, flow);
  if (ends === undefined) return "impossible";
  const isFine =
    mayPass(cluster, flow, "Egress", ends, options) && mayPass(cluster, flow, "Ingress", swapped(ends), options);
  return isFine ? "allowed" : "denied";
}

/**
 * Whether policies in shadow would deny at one end what no NetworkPolicy denies there: the same evaluation of a cluster
 * in which no policy is in shadow and everything that comes after NetworkPolicies allows everything.
 */
export function secondReadingOfShadow(
  cluster: RawCluster,
  flow: RawFlow,
  type: "Egress" | "Ingress",
  options: ReadingOptions = {},
): boolean {
  const ends = endsOf(cluster, flow);
  if (ends === undefined) return false;
  const pod = (type === "Egress" ? ends.me : ends.other).pod;
  if (pod === undefined) return false;
  const clusterNetworkPolicies = cluster.clusterNetworkPolicies.filter(({ spec }) => spec.tier === "Admin");
  const now = { ...cluster, clusterNetworkPolicies };
  const then = { ...now, networkPolicies: cluster.networkPolicies.map(withoutAnnotations) };
  const judged = type === "Egress" ? ends : swapped(ends);
  return mayPass(now, flow, type, judged, options) && !mayPass(then, flow, type, judged, options);
}

interface Ends {
  readonly me: Who;
  readonly other: Who;
}

function endsOf(cluster: RawCluster, flow: RawFlow): Ends | undefined {
  const [me, other] = [flow.source, flow.destination].map((end) => who(cluster, end, flow.isIpv6));
  return me === undefined || other === undefined ? undefined : { me, other };
}

function swapped({ me, other }: Ends): Ends {
  return { me: other, other: me };
}

function withoutAnnotations({ metadata: { name, namespace }, spec }: RawNetworkPolicy): RawNetworkPolicy {
  return { metadata: { name, namespace }, spec };
}

interface Who {
  /** The pod, when it has an address of its own. */
  readonly pod?: RawPod;
  readonly node?: string;
  readonly address?: string | undefined;
}

type Type = "Egress" | "Ingress";

function who(cluster: RawCluster, end: string, isIpv6: boolean): Who | undefined {
  const ofFamily = (addresses: readonly string[]): string | undefined =>
    addresses.find((address) => isIPv6(address) === isIpv6);
  const [kind, name = ""] = end.split(" ");
  if (kind === "node") {
    const addresses = cluster.nodes.find((one) => one.metadata.name === name)?.status.addresses ?? [];
    const address = ofFamily(addresses.map((one) => one.address));
    return address === undefined ? undefined : { node: name, address };
  }
  if (kind === "pod") {
    const pod = cluster.pods.find(({ metadata }) => `${metadata.namespace}/${metadata.name}` === name);
    if (pod === undefined || hasEnded(pod)) return undefined;
    if (pod.spec.hostNetwork === true) return who(cluster, `node ${pod.spec.nodeName}`, isIpv6);
    const addresses = (pod.status.podIPs ?? []).map(({ ip }) => ip);
    const address = ofFamily(addresses);
    return addresses.length > 0 && address === undefined ? undefined : { pod, address };
  }
  return isIPv6(end) === isIpv6 ? whoHas(cluster, end) : undefined;
}

function whoHas(cluster: RawCluster, address: string): Who {
  const node = cluster.nodes.find((one) => one.status.addresses.some((known) => known.address === address));
  if (node !== undefined) return { node: node.metadata.name, address };
  const pods = cluster.pods.filter((pod) => !hasEnded(pod) && pod.spec.hostNetwork !== true);
  const pod = pods.find(({ status }) => (status.podIPs ?? []).some(({ ip }) => ip === address));
  return pod === undefined ? { address } : { pod, address };
}

function hasEnded({ status }: RawPod): boolean {
  return status.phase === "Succeeded" || status.phase === "Failed";
}

function mayPass(
  cluster: RawCluster,
  flow: RawFlow,
  type: Type,
  { me, other }: Ends,
  options: ReadingOptions,
): boolean {
  const { pod } = me;
  if (pod === undefined || flow.protocol === "ICMP error") return true;
  const isMyself = pod === other.pod;
  if (isMyself && !flow.isThroughService) return true;
  const isMyNode = other.node !== undefined && other.node === pod.spec.nodeName;
  if (isMyNode && type === "Ingress") return true;
  const admin = verdictOfTier(cluster, flow, "Admin", { type, pod, me, other });
  if (admin === "Accept" || admin === "Deny") return admin === "Accept";
  const isolating = cluster.networkPolicies.filter((policy) => isolates(policy, type, pod));
  if (isolating.length > 0) {
    const isExempt = isMyNode && options.policePodToOwnNode !== true;
    if (isMyself || isExempt || isNodeDns(flow, type, other, options)) return true;
    return isolating.some((policy) => policyAllows(cluster, flow, type, policy, { me, other }));
  }
  return verdictOfTier(cluster, flow, "Baseline", { type, pod, me, other }) !== "Deny";
}

function isNodeDns(
  { protocol, port }: RawFlow,
  type: Type,
  { address }: Who,
  { nodeLocalDNS = [] }: ReadingOptions,
): boolean {
  if (type === "Ingress" || port !== 53 || address === undefined) return false;
  return (protocol === "UDP" || protocol === "TCP") && nodeLocalDNS.includes(address);
}

function isolates({ metadata, spec }: RawNetworkPolicy, type: Type, pod: RawPod): boolean {
  const byDefault = (spec.egress ?? []).length > 0 ? ["Ingress", "Egress"] : ["Ingress"];
  const types = (spec.policyTypes ?? []).length > 0 ? (spec.policyTypes ?? []) : byDefault;
  if (metadata.annotations?.["drawbridge.dev/shadow"] === "true") return false;
  if (!types.includes(type) || metadata.namespace !== pod.metadata.namespace) return false;
  return agrees(spec.podSelector, pod.metadata.labels);
}

function policyAllows(
  cluster: RawCluster,
  flow: RawFlow,
  type: Type,
  { metadata, spec }: RawNetworkPolicy,
  { me, other }: { readonly me: Who; readonly other: Who },
): boolean {
  const destination = type === "Egress" ? other : me;
  const rules = (type === "Egress" ? spec.egress : spec.ingress) ?? [];
  return rules.some((rule) => {
    const given = (type === "Egress" ? rule.to : (rule.from ?? rule._from)) ?? [];
    const peers: readonly (RawPeer | "everyone")[] = given.length > 0 ? given : ["everyone"];
    const ports: readonly (RawPort | "any")[] = (rule.ports ?? []).length > 0 ? (rule.ports ?? []) : ["any"];
    return peers.some((peer) =>
      ports.some((port) => {
        if (port !== "any" && !portFits(port, flow, destination)) return false;
        return peer === "everyone" || isPeer(cluster, peer, metadata.namespace, other);
      }),
    );
  });
}

function isPeer(cluster: RawCluster, peer: RawPeer, home: string, { pod, address }: Who): boolean {
  if (peer.ipBlock !== undefined) {
    const { cidr, except = [] } = peer.ipBlock;
    return has([cidr], address) && !has(except, address);
  }
  if (pod === undefined || !agrees(peer.podSelector, pod.metadata.labels)) return false;
  if (peer.namespaceSelector === undefined) return pod.metadata.namespace === home;
  return agrees(peer.namespaceSelector, namespaceLabels(cluster, pod));
}

function portFits({ protocol = "TCP", port, endPort }: RawPort, flow: RawFlow, { pod }: Who): boolean {
  if (flow.protocol !== protocol) return false;
  if (port === undefined) return true;
  if (typeof port === "number")
    return endPort === undefined ? flow.port === port : flow.port >= port && flow.port <= endPort;
  return pod !== undefined && isNamed(pod, port, flow);
}

function isNamed({ spec }: RawPod, name: string, { protocol, port }: RawFlow): boolean {
  const sidecars = (spec.initContainers ?? []).filter(({ restartPolicy }) => restartPolicy === "Always");
  const ports = [...spec.containers, ...sidecars].flatMap((container) => container.ports ?? []);
  return ports.some((one) => one.name === name && (one.protocol ?? "TCP") === protocol && one.containerPort === port);
}

interface Subject extends Ends {
  readonly type: Type;
  readonly pod: RawPod;
}

/** Returns the action of the first rule of a tier that matches: by priority, then name. */
function verdictOfTier(cluster: RawCluster, flow: RawFlow, tier: string, ends: Subject): string | undefined {
  const { type, pod } = ends;
  const policies = cluster.clusterNetworkPolicies
    .filter(({ spec }) => spec.tier === tier && isSelected(cluster, spec.subject, pod))
    .toSorted(byPrecedence);
  for (const { spec } of policies) {
    for (const rule of (type === "Egress" ? spec.egress : spec.ingress) ?? []) {
      const action = actionFor(cluster, flow, rule, ends);
      if (action !== undefined) return action;
    }
  }
  return undefined;
}

function byPrecedence(a: RawClusterPolicy, b: RawClusterPolicy): number {
  return a.spec.priority - b.spec.priority || (a.metadata.name < b.metadata.name ? -1 : 1);
}

/**
 * Returns the action of a rule; undefined where it does not match. Domain names cannot be resolved here, so a rule with
 * one fails closed.
 */
function actionFor(
  cluster: RawCluster,
  flow: RawFlow,
  { action, from, to, protocols }: RawClusterRule,
  { type, me, other }: Subject,
): string | undefined {
  const peers = (type === "Egress" ? to : from) ?? [];
  if (peers.some(({ domainNames }) => domainNames !== undefined)) return action === "Accept" ? undefined : "Deny";
  const destination = type === "Egress" ? other : me;
  const isPort = protocols === undefined || protocols.some((port) => clusterPortFits(port, flow, destination));
  const isOneOfPeers = peers.some((peer) => {
    if (peer.networks !== undefined) return has(peer.networks, other.address);
    if (peer.nodes !== undefined) {
      const node = cluster.nodes.find(({ metadata }) => metadata.name === other.node);
      return node !== undefined && agrees(peer.nodes, node.metadata.labels);
    }
    return other.pod !== undefined && isSelected(cluster, peer, other.pod);
  });
  return isPort && isOneOfPeers ? action : undefined;
}

function isSelected(cluster: RawCluster, { namespaces, pods }: RawClusterPeer, pod: RawPod): boolean {
  const labels = namespaceLabels(cluster, pod);
  if (namespaces !== undefined) return agrees(namespaces, labels);
  return agrees(pods?.namespaceSelector, labels) && agrees(pods?.podSelector, pod.metadata.labels);
}

function clusterPortFits(entry: RawClusterPort, flow: RawFlow, { pod }: Who): boolean {
  if (entry.destinationNamedPort !== undefined) {
    return pod !== undefined && isNamed(pod, entry.destinationNamedPort, flow);
  }
  const attributes = { TCP: entry.tcp, UDP: entry.udp, SCTP: entry.sctp, ICMP: undefined, "ICMP error": undefined };
  const port = attributes[flow.protocol]?.destinationPort;
  if (port === undefined) return false;
  if (port.range === undefined) return port.number === flow.port;
  return port.range.start <= flow.port && flow.port <= port.range.end;
}

function namespaceLabels({ namespaces }: RawCluster, { metadata }: RawPod): RawLabels {
  const known = namespaces.find((one) => one.metadata.name === metadata.namespace)?.metadata.labels;
  return { ...known, "kubernetes.io/metadata.name": metadata.namespace };
}

function agrees({ matchLabels = {}, matchExpressions = [] }: RawSelector = {}, labels: RawLabels = {}): boolean {
  const isEqual = Object.entries(matchLabels).every(([key, value]) => labels[key] === value);
  return isEqual && matchExpressions.every((one) => expressionHolds(one, labels[one.key]));
}

function expressionHolds({ operator, values = [] }: RawExpression, value: string | undefined): boolean {
  const isListed = value !== undefined && values.includes(value);
  switch (operator) {
    case "In":
      return isListed;
    case "NotIn":
      return !isListed;
    case "Exists":
      return value !== undefined;
    default:
      return value === undefined;
  }
}

/**
 * Whether prefixes contain an address. Only prefixes of its family are tested, since Node's list matches ::/0 for IPv4
 * as well.
 */
function has(cidrs: readonly string[], address: string | undefined): boolean {
  if (address === undefined) return false;
  const family = isIPv6(address) ? "ipv6" : "ipv4";
  const list = new BlockList();
  for (const cidr of cidrs) {
    const [network = "", length] = cidr.split("/");
    if (isIPv6(network) === isIPv6(address)) list.addSubnet(network, Number(length), family);
  }
  return list.check(address, family);
}
