import { type Address, type Family, familyOf, formatAddress } from "../../../kernel/ip/address.ts";
import { DrawbridgeError } from "../../../kernel/error.ts";
import { specialClass } from "./address_class.ts";
import { applyAffinity, hasUsable, select, type Selected, type Selection } from "./selection.ts";
import { endpointsOf, type PortEndpoints } from "./endpoint.ts";
import { findFrontend, type FoundFrontend, isVirtualAddress, nearMisses, ownerOfClusterIp } from "./frontend.ts";
import type { Packet, SocketAddress } from "./packet.ts";
import type { Candidate, Drop, EndpointReport, Frontend, Masquerade, Reject, Route, Verdict } from "./verdict.ts";
import type { ServiceWorld } from "./world.ts";
import { type Cidr, cidrContains } from "../../../kernel/ip/cidr.ts";
import { primaryAddresses } from "./node_port.ts";
import { ENFORCE_SOURCE_RANGES, type Node, type Service } from "../../model.ts";
import { addressesOfNode } from "../../nodes/node_addresses.ts";
import { judgeNodes } from "../../nodes/judged_nodes.ts";

/**
 * Computes the verdict of this node's Services on the first packet of a connection, with all reasons. It follows the
 * Kubernetes documentation of Services directly and knows nothing of tables or rules.
 *
 * @param remembered the endpoint of the client's session affinity, if it was used within the timeout
 * @throws DrawbridgeError ERR_ADDRESS for a packet of two families
 */
export function evaluate(world: ServiceWorld, packet: Packet, remembered?: SocketAddress): Verdict {
  const impossible = evaluateEntry(world, packet);
  if (impossible !== undefined) return impossible;
  const found = findFrontend(world, packet);
  if (found === undefined) return evaluateStray(world, packet);
  const sourceRanges = evaluateSource(world, found, packet);
  if (sourceRanges === "outside") {
    return drop({ type: "source range", service: found.service.key }, { frontend: found.frontend });
  }
  if (found.isElsewhere) return evaluateStray(world, packet);
  return evaluateFrontend(world, packet, found, { sourceRanges, remembered });
}

/** Drops impossible packets: the kernel or the guard of the node's bridge drops them before any Service sees them. */
function evaluateEntry({ localPods }: ServiceWorld, { entry, source, destination }: Packet): Drop | undefined {
  if (familyOf(source) !== familyOf(destination)) {
    throw new DrawbridgeError(
      "ERR_ADDRESS",
      `packet: from ${formatAddress(source)} to ${formatAddress(destination)}; expected two addresses of one family`,
    );
  }
  if (entry === "node") return undefined;
  if (entry === "pod" && !localPods.has(source)) return drop({ type: "source not of a local pod" });
  const isLoopback = [source, destination].some((address) => specialClass(address) === "loopback");
  return isLoopback ? drop({ type: "loopback address from elsewhere" }) : undefined;
}

/** Evaluates a packet to no frontend: a cluster IP's other ports are refused, so it never leaves the node (SVC-08). */
function evaluateStray(world: ServiceWorld, packet: Packet): Verdict {
  const owner = ownerOfClusterIp(world, packet.destination);
  if (owner === undefined) return Object.freeze({ kind: "pass", nearMisses: nearMisses(world, packet) });
  const reason = { type: "no such port", service: owner.key } as const;
  return Object.freeze({ kind: "reject", reason, reply: "port unreachable" });
}

interface Context {
  readonly sourceRanges: "none" | "within";
  readonly remembered: SocketAddress | undefined;
}

function evaluateFrontend(world: ServiceWorld, packet: Packet, found: FoundFrontend, context: Context): Verdict {
  const { frontend, service, port } = found;
  const family: Family = familyOf(packet.destination);
  const known = endpointsOf(world, service, port, family);
  const sender = senderOf(world, packet);
  const route = routeOf(frontend.type, service, sender);
  const selection = select(world, known.endpoints, route.endpoints);
  if (!hasUsable(known.endpoints)) {
    return rejectNoEndpoints(world, packet, { frontend, endpoints: report(known, selection) });
  }
  const { affinity, ...chosen } = applyAffinity(world, service, selection, context.remembered);
  const [first, ...others] = chosen.selected.map((one) => candidate(world, packet, found, route, one));
  const endpoints = report(known, chosen);
  if (first === undefined) {
    const policy = frontend.type === "ClusterIP" ? "internal" : "external";
    return drop({ type: "no local endpoint", policy }, { frontend, endpoints });
  }
  const { sourceRanges } = context;
  const candidates = Object.freeze([first, ...others] as const);
  return Object.freeze({ kind: "translate", frontend, sourceRanges, route, affinity, candidates, endpoints });
}

function candidate(
  world: ServiceWorld,
  packet: Packet,
  { frontend }: FoundFrontend,
  route: Route,
  { endpoint: { socket }, because }: Selected,
): Candidate {
  return Object.freeze({
    destination: socket,
    because,
    masquerade: masqueradeOf(world, packet, frontend.type, route, socket.address),
    isRejected: ownerOfClusterIp(world, socket.address) !== undefined,
  });
}

function rejectNoEndpoints(
  { configuration }: ServiceWorld,
  { protocol }: Packet,
  about: Pick<Reject, "frontend" | "endpoints">,
): Reject {
  const reply = configuration.tcpReset && protocol === "TCP" ? "tcp reset" : "port unreachable";
  const reason = { type: "no endpoints" } as const;
  return Object.freeze({ kind: "reject", reason, reply, ...about });
}

function drop(reason: Drop["reason"], about: Pick<Drop, "frontend" | "endpoints"> = {}): Drop {
  return Object.freeze({ kind: "drop", reason, ...about });
}

function report({ omitted, ignoredSlices }: PortEndpoints, selection: Selection): EndpointReport {
  return Object.freeze({ hints: selection.hints, omitted: [...omitted, ...selection.omitted], ignoredSlices });
}

/**
 * Checks a packet against a Service's loadBalancerSourceRanges (LB-06). They apply only to its load balancer's
 * addresses and not to node ports there, or with the annotation to every external frontend; never to its cluster IP.
 *
 * If a node is within the ranges, packets from the load balancer's addresses are allowed too: a node that has such an
 * address uses it as the source of its own packets to it. If all ranges are of the other family, no source is allowed.
 */
export function evaluateSource(
  world: ServiceWorld,
  { service, frontend }: FoundFrontend,
  packet: Packet,
): "none" | "within" | "outside" {
  const { loadBalancerSourceRanges: ranges } = service;
  const { source } = packet;
  const isEnforced = frontend.type !== "ClusterIP" && service.annotations[ENFORCE_SOURCE_RANGES] === "true";
  const isRestricted = frontend.type === "LoadBalancer" || isEnforced;
  if (ranges === undefined || !isRestricted) return "none";
  if (ranges.some((range) => cidrContains(range, source))) return "within";
  const primary = primaryAddresses(world).filter((address) => familyOf(address) === familyOf(source));
  const isNodeAllowed = primary.some((address) => ranges.some((range) => cidrContains(range, address)));
  return isNodeAllowed && isVirtualAddress(service, source) ? "within" : "outside";
}

/**
 * Returns the endpoints that the traffic policies leave a sender (ITP-01 to ITP-04, ETP-01 to ETP-08). The internal
 * policy applies to the cluster IP for everyone; the external one applies to all other frontends for senders outside of
 * this node. This node and its pods may use any endpoint of a Service with externalTrafficPolicy Local.
 */
export function routeOf(frontend: Frontend["type"], service: Service, sender: Sender): Route {
  if (frontend === "ClusterIP") {
    const endpoints = service.internalTrafficPolicy === "Local" ? "local" : "all";
    return { endpoints, because: "internal policy" };
  }
  if (service.externalTrafficPolicy === "Cluster") return { endpoints: "all", because: "external policy" };
  if (sender === "node" || sender === "local pod") return { endpoints: "all", because: sender };
  return { endpoints: "local", because: "external policy" };
}

/**
 * Returns whether a packet leaves with an address of this node, so that the answer comes back here (SVC-13, SVC-14,
 * NODE-07, XIP-02, LB-04, ETP-02, ETP-06). A packet of a local pod to itself always does (POD-12), one to another pod
 * never. A packet from elsewhere to an endpoint on one of the node's own addresses never does, since it leaves by no
 * interface.
 */
function masqueradeOf(
  world: ServiceWorld,
  packet: Packet,
  frontend: Frontend["type"],
  route: Route,
  endpoint: Address,
): Masquerade {
  const sender = senderOf(world, packet);
  if (sender !== "node" && world.nodeAddresses.has(endpoint)) return { masqueraded: false, because: "stays here" };
  if (sender === "local pod" && packet.source === endpoint) return { masqueraded: true, because: "hairpin" };
  if (frontend === "ClusterIP") {
    if (sender === "local pod" || sender === "other pod") return { masqueraded: false, because: "source is a pod" };
    // Answers to the bridge's address come back here anyway.
    return isOfPods(world, packet.source)
      ? { masqueraded: false, because: "address of the pods" }
      : { masqueraded: true, because: "source is not a pod" };
  }
  if (route.endpoints === "local") return { masqueraded: false, because: "external policy" };
  if (route.because === "local pod") return { masqueraded: false, because: "local pod" };
  if (sender === "local pod" && isPod(world, endpoint)) return { masqueraded: false, because: "pod to pod" };
  return { masqueraded: true, because: route.because === "node" ? "node" : "external policy" };
}

/** Returns whether an address is one of the pods' networks, and none that a Node implies. */
function isPod(world: ServiceWorld, address: Address): boolean {
  return isOfPods(world, address) && !world.nodes.some((node) => addressesOfNode(node).includes(address));
}

/** The senders that Services distinguish. */
export type Sender = "node" | "local pod" | "other pod" | "outside";

/**
 * Returns the kind of a packet's sender. A process of the node is never one of its pods, whatever address it uses; a
 * pod of another node is recognised by the networks of the cluster's pods.
 */
export function senderOf(world: ServiceWorld, { entry, source }: Packet): Sender {
  if (entry === "node") return "node";
  if (entry === "pod") return "local pod";
  return isOfPods(world, source) ? "other pod" : "outside";
}

/** Returns whether an address is in a network of the pods of any node, as the addresses of the nodes' bridges are. */
export function isOfPods({ nodes, nodeName, configuration }: ServiceWorld, address: Address): boolean {
  const networks = [...configuration.clusterCidrs, ...podCidrsOf(nodes, nodeName)];
  return networks.some((network) => cidrContains(network, address));
}

/** Cached, since each packet needs it and it is the same for all packets of a world. */
const believed = new WeakMap<readonly Node[], Map<string, readonly Cidr[]>>();

function podCidrsOf(nodes: readonly Node[], nodeName: string): readonly Cidr[] {
  const ofNodes = believed.get(nodes) ?? new Map<string, readonly Cidr[]>();
  believed.set(nodes, ofNodes);
  const known =
    ofNodes.get(nodeName) ?? [...judgeNodes(nodes, { nodeName }).nodes.values()].flatMap(({ podCidrs }) => podCidrs);
  ofNodes.set(nodeName, known);
  return known;
}
