import { type Family, familyOf, formatAddress } from "../../../kernel/ip/address.ts";
import { DrawbridgeError } from "../../../kernel/error.ts";
import { specialClass } from "./address_class.ts";
import { applyAffinity, hasUsable, select, type Selected, type Selection } from "./selection.ts";
import { endpointsOf, type PortEndpoints } from "./endpoint.ts";
import { findFrontend, type FoundFrontend, isVirtualAddress, nearMisses, ownerOfClusterIp } from "./frontend.ts";
import type { Packet, SocketAddress } from "./packet.ts";
import { masqueradeOf, routeOf, senderOf } from "./route.ts";
import type { Candidate, Drop, EndpointReport, Reject, Route, Verdict } from "./verdict.ts";
import type { ServiceWorld } from "./world.ts";
import { cidrContains } from "../../../kernel/ip/cidr.ts";
import { primaryAddresses } from "./node_port.ts";
import { ENFORCE_SOURCE_RANGES } from "../../model.ts";

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
 * addresses, or with the annotation to every external frontend; never to its cluster IP.
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
  const { source, destination } = packet;
  const isEnforced = service.annotations[ENFORCE_SOURCE_RANGES] === "true";
  const isRestricted = frontend.type !== "ClusterIP" && (isEnforced || isVirtualAddress(service, destination));
  if (ranges === undefined || !isRestricted) return "none";
  if (ranges.some((range) => cidrContains(range, source))) return "within";
  const primary = primaryAddresses(world).filter((address) => familyOf(address) === familyOf(source));
  const isNodeAllowed = primary.some((address) => ranges.some((range) => cidrContains(range, address)));
  return isNodeAllowed && isVirtualAddress(service, source) ? "within" : "outside";
}
