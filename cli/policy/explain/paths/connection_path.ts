import { type Address, type Family, familyOf } from "../../../../kernel/ip/address.ts";
import type { Protocol, Endpoint, Service } from "../../../../objects/model.ts";
import type { Flow, Traffic } from "../../../../objects/semantics/policies/flow.ts";
import { evaluate } from "../../../../objects/semantics/services/evaluate.ts";
import type { Packet } from "../../../../objects/semantics/services/packet.ts";
import type { Candidate, Masquerade, Translate, Verdict } from "../../../../objects/semantics/services/verdict.ts";
import { ownerOf, UNKNOWN_NODE } from "../../../cluster/cluster.ts";
import { flowEndOf, hasAddress, type Host, hostAt, hostName, nodeOf } from "../../../cluster/find_end.ts";
import { type ExplainContext, MOST_HOSTS } from "../context.ts";
import { serviceKeyOf } from "../../../../objects/service_key.ts";

/** The verdict of a node's Services on a packet. */
export interface ServiceStep {
  readonly node: string;
  readonly packet: Packet;
  readonly verdict: Verdict;
}

/** One way that a connection may take. */
export interface ConnectionPath {
  readonly family: Family | undefined;
  readonly source: Host;
  readonly steps: readonly ServiceStep[];
  /** Undefined where the last step or `stopped` ends the way, so that no policy is evaluated. */
  readonly arrival: Arrival | undefined;
  readonly stopped: string | undefined;
  /** Whether it is the input that ends here: what `stopped` says is missing. */
  readonly isUnknown?: true;
}

/** Why a way ends before any policy is evaluated. */
export type Stop = Pick<ConnectionPath, "stopped" | "isUnknown">;

/** The end of a way, and the questions to policies on it. */
export interface Arrival {
  readonly destination: Host;
  /** The host of the address it was sent to, if another node's Services translate it; egress policies see it. */
  readonly via: Host | undefined;
  /** The effect of a Service on the source address. */
  readonly masquerade: Masquerade | undefined;
  /** The flow at the source: after a Service of its own node, before one of another node (POL-27). */
  readonly egress: Flow;
  /** The flow at the destination: from the source, or from the node that replaced its address on the way. */
  readonly ingress: Flow;
}

/** Any port does, since clients choose theirs freely. */
const SOURCE_PORT = 40_000;

/** Returns a way without Services. @param via the node whose port leads to the destination, if it is not the source's */
export function directWay(
  source: Host,
  destination: Host,
  traffic: Traffic,
  family: Family | undefined,
  via?: { readonly host: Host; readonly traffic: Traffic },
): ConnectionPath {
  const flow: Flow = { source: flowEndOf(source), destination: flowEndOf(destination), family, ...traffic };
  const egress: Flow =
    via === undefined ? flow : { source: flow.source, destination: flowEndOf(via.host), family, ...via.traffic };
  return {
    family,
    source,
    steps: [],
    arrival: { destination, via: via?.host, masquerade: undefined, egress, ingress: flow },
    stopped: undefined,
  };
}

/** Returns a way that ends before any policy is evaluated. */
export function stoppedWay(source: Host, stop: Stop): ConnectionPath {
  return { family: undefined, source, steps: [], arrival: undefined, ...stop };
}

/** Returns the ways to an address and port, maybe a Service's; none if the source has no address of the family. */
export function waysToAddress(
  context: ExplainContext,
  source: Host,
  destination: Address,
  { protocol, port }: { readonly protocol: Protocol; readonly port: number },
): readonly ConnectionPath[] {
  const from = context.addressOf(source, familyOf(destination));
  if (from === undefined) return [];
  const packet: Packet = {
    entry: entryOf(source),
    protocol,
    source: from,
    sourcePort: SOURCE_PORT,
    destination,
    destinationPort: port,
  };
  return entryNodes(context, source, destination).flatMap((node) => waysFrom(context, source, packet, node));
}

function entryOf(source: Host): Packet["entry"] {
  if (source.type === "pod") return source.pod.hostNetwork ? "node" : "pod";
  return source.type === "node" ? "node" : "outside";
}

function waysFrom(context: ExplainContext, source: Host, packet: Packet, node: string): readonly ConnectionPath[] {
  const step = stepAt(context, node, packet);
  if (step.verdict.kind !== "pass") return waysAfter(context, source, [step], false);
  const owner = ownerOf(context.cluster, packet.destination);
  if (owner?.type === "node" && owner.key !== node) {
    const there = stepAt(context, owner.key, { ...packet, entry: "outside" });
    if (there.verdict.kind !== "pass") return waysAfter(context, source, [step, there], true);
  }
  const nowhere = whyNowhere(context, packet.destination);
  if (nowhere !== undefined) return [{ ...stoppedWay(source, { stopped: nowhere }), steps: [step] }];
  const { protocol, destinationPort: port } = packet;
  const destination = hostAt(context.cluster, packet.destination);
  return [{ ...directWay(source, destination, { protocol, port }, familyOf(packet.destination)), steps: [step] }];
}

/** Returns why a packet that no Service takes gets nowhere; undefined where its address may belong to a host. */
function whyNowhere({ worlds }: ExplainContext, address: Address): string | undefined {
  const { services } = worlds.objects;
  if ([...services.values()].some(({ clusterIps }) => clusterIps.includes(address)))
    return "no Service takes it, and a cluster IP is nobody's own address";
  const lost = [...worlds.oversized.keys()].find((key) => hasAddress(services.get(key), address));
  return lost === undefined ? undefined : `no Service takes it: Service ${lost} is too large for nodes`;
}

function stepAt({ worlds }: ExplainContext, node: string, packet: Packet): ServiceStep {
  return { node, packet, verdict: evaluate(worlds.of(node), packet) };
}

/** @param isElsewhere whether a Service of another node than the source's took the packet */
function waysAfter(
  context: ExplainContext,
  source: Host,
  steps: readonly ServiceStep[],
  isElsewhere: boolean,
): readonly ConnectionPath[] {
  const last = steps.at(-1);
  const family = last && familyOf(last.packet.destination);
  const nowhere: ConnectionPath = { family, source, steps, arrival: undefined, stopped: undefined };
  if (last?.verdict.kind === "reject" && last.verdict.reason.type === "no endpoints")
    return [{ ...nowhere, ...unknownEndpoints(context, last.verdict.frontend?.service) }];
  if (last?.verdict.kind !== "translate") return [nowhere];
  const before = isElsewhere ? hostAt(context.cluster, last.packet.destination) : undefined;
  return candidatesOf(context, last.verdict, last.node).map(({ candidate, host }): ConnectionPath => {
    if (candidate.isRejected) return { ...nowhere, stopped: "refused: the endpoint is a cluster IP itself" };
    const missing = missingPod(context, host);
    if (missing !== undefined) return { ...nowhere, ...missing };
    const seen = candidate.masquerade.masqueraded ? maskedSource(source, host, last.node) : source;
    const { protocol, destinationPort } = last.packet;
    const flow = { family, isThroughService: true, protocol, port: candidate.destination.port };
    const ingress: Flow = { ...flow, source: flowEndOf(seen), destination: flowEndOf(host) };
    const own = { ...flow, source: flowEndOf(source) };
    const egress: Flow =
      before === undefined
        ? { ...own, destination: flowEndOf(host) }
        : { ...own, destination: flowEndOf(before), port: destinationPort };
    return {
      ...nowhere,
      arrival: { destination: host, via: before, masquerade: candidate.masquerade, egress, ingress },
    };
  });
}

/** Returns why an address cannot be evaluated, if slices call it a pod's and no pod of the input has it. */
export function missingPod({ worlds }: ExplainContext, host: Host): Stop | undefined {
  const pod = host.type === "outside" ? worlds.objects.endpointPods.get(host.address) : undefined;
  if (pod === undefined) return undefined;
  const stopped = `${hostName(host)} is pod ${pod}, which is not in the input or has another address there`;
  return { stopped, isUnknown: true };
}

/** Returns why nobody knows where a Service without endpoints leads, if the input does not say it. */
export function unknownEndpoints({ worlds }: ExplainContext, service: string | undefined): Stop | undefined {
  if (service === undefined || !worlds.objects.unknown.has(service)) return undefined;
  return { stopped: `Service ${service} has no selector, and the input no EndpointSlices of it`, isUnknown: true };
}

function candidatesOf(
  context: ExplainContext,
  { candidates }: Translate,
  here: string,
): readonly { readonly candidate: Candidate; readonly host: Host }[] {
  const all = candidates.map((candidate) => ({
    candidate,
    host: hostAt(context.cluster, candidate.destination.address),
  }));
  return context.few(all, ({ candidate, host }) => ({ host, port: candidate.destination.port }), new Set([here]));
}

/** Policies on the node that replaces the address still see the source; those on other nodes see that node. */
function maskedSource(source: Host, destination: Host, node: string): Host {
  if (node === UNKNOWN_NODE || nodeOf(destination) === node) return source;
  return { type: "node", name: node };
}

/**
 * Returns the nodes on which a packet may first meet the Services' rules: the source's own; those of
 * startNodes, where the destination address is a node's; or else those that may treat the packet differently.
 */
function entryNodes(context: ExplainContext, source: Host, destination: Address): readonly string[] {
  const own = nodeOf(source);
  if (own !== undefined) return [own];
  const owner = ownerOf(context.cluster, destination);
  if (owner?.type === "node") return startNodes(context, source, owner.key);
  const services = [...context.worlds.objects.services.values()].filter((service) => hasAddress(service, destination));
  return nodesThatMatter(context, services);
}

/**
 * Returns the nodes on which a connection to a node may start: the source's own; that node and another one for a pod
 * whose node is not known; that node for a source outside.
 */
export function startNodes({ cluster }: ExplainContext, source: Host, node: string): readonly string[] {
  const own = nodeOf(source);
  if (own !== undefined) return [own];
  const others = [...cluster.store.nodes.keys()].filter((one) => one !== node);
  return source.type === "pod" ? [node, ...others.slice(0, 1)] : [node];
}

/**
 * Returns the nodes with endpoints of some Services or, of many, one of each kind by its endpoints; and one node without
 * any of each kind.
 */
export function nodesThatMatter(context: ExplainContext, services: readonly Service[]): readonly string[] {
  const { cluster, worlds } = context;
  const keys = new Set(services.map(({ key }) => key));
  const slices = worlds.objects.endpointSlices.filter((slice) => keys.has(serviceKeyOf(slice) ?? ""));
  const endpoints = slices.flatMap((slice) => slice.endpoints.map((one) => ({ ...one, ports: slice.ports })));
  const hosting = Map.groupBy(endpoints, ({ nodeName }) => nodeName);
  hosting.delete(undefined);
  // Pods without a node yet count as on the node of a sender without one.
  if (hosting.has(UNKNOWN_NODE)) return [UNKNOWN_NODE];
  const isMany = hosting.size > MOST_HOSTS;
  const kindOfEndpoint = ({ address, ...state }: Endpoint): string =>
    `${familyOf(address)} ${context.kindOf(hostAt(cluster, address))} ${JSON.stringify({ ...state, nodeName: "", podKey: "" })}`;
  const chosen = new Map<string, string>();
  for (const node of [...cluster.store.nodes.values()].toSorted((a, b) => (a.name < b.name ? -1 : 1))) {
    const here = hosting.get(node.name);
    const kind = here === undefined || isMany ? context.nodeKindOf(node) : node.name;
    const key = JSON.stringify([
      kind,
      here && isMany ? [...new Set(here.map(kindOfEndpoint))].sort() : here !== undefined,
    ]);
    if (!chosen.has(key)) chosen.set(key, node.name);
  }
  const all = [...chosen.values()];
  const isHosting = (name: string): boolean => hosting.has(name);
  const ordered = [...all.filter(isHosting), ...all.filter((name) => !isHosting(name))];
  return ordered.length === 0 ? [UNKNOWN_NODE] : ordered;
}
