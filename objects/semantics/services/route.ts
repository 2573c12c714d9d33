import type { Address } from "../../../kernel/ip/address.ts";
import { addressesOfNode } from "../../nodes/node_addresses.ts";
import type { Node, Service } from "../../model.ts";
import type { Packet } from "./packet.ts";
import type { Frontend, Masquerade, Route } from "./verdict.ts";
import type { ServiceWorld } from "./world.ts";
import { type Cidr, cidrContains } from "../../../kernel/ip/cidr.ts";
import { judgeNodes } from "../../nodes/judged_nodes.ts";

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
export function masqueradeOf(
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
