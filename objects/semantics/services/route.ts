import type { Address } from "../../../kernel/ip/address.ts";
import { addressesOfNode } from "../../nodes/node_addresses.ts";
import type { Service } from "../../model.ts";
import type { Packet } from "./packet.ts";
import { isOfPods, type Sender, senderOf } from "./sender.ts";
import type { Frontend, Masquerade, Route } from "./verdict.ts";
import type { ServiceWorld } from "./world.ts";

/**
 * Returns the endpoints that the traffic policies leave a sender (ITP-01, ITP-02, ETP-01 to ETP-08). The internal
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
 * ETP-01, XIP-02, ETP-02, ETP-06). A packet of a local pod to itself always does (POD-12), one to another pod
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
