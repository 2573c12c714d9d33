import { type Address, type Family, familyOf } from "../../../kernel/ip/address.ts";
import type { EndpointSlice, Node, Protocol, Service, ServicePort } from "../../model.ts";
import { specialClass } from "./address_class.ts";
import {
  API_SERVER,
  CLUSTER_OWNERS,
  type ConfiguredSockets,
  KUBERNETES_SERVICE,
  METADATA_ADDRESSES,
  type ProtectedPort,
  type Refusal,
} from "../../socket_refusal.ts";
import { endpointsOf } from "./endpoint.ts";
import { nodePortRefusal, servesElsewhere } from "./node_port.ts";
import type { Packet } from "./packet.ts";
import { hasUsable } from "./selection.ts";
import type { Frontend, NearMiss, NotProxied } from "./verdict.ts";
import type { ServiceWorld } from "./world.ts";
import { type Cidr, cidrContains } from "../../../kernel/ip/cidr.ts";
import { judgeNodes } from "../../nodes/judged_nodes.ts";

/** A frontend a packet is sent to, with the objects it comes from. */
export interface FoundFrontend {
  readonly frontend: Frontend;
  readonly service: Service;
  readonly port: ServicePort;
  /** Whether another node finds the endpoint (NODE-12). */
  readonly isElsewhere: boolean;
}

/**
 * Returns the frontend at the packet's destination; Services' own addresses take precedence over NodePorts (SVC-18).
 *
 * If several Services claim one address and port, the API server's cluster IPs come first, then load balancers'
 * addresses, then externalIPs; at a node's address externalIPs come after the node port of another Service (CLAIM-05).
 * Among equals the oldest Service has it, then the one whose `namespace/name` sorts first.
 */
export function findFrontend(world: ServiceWorld, packet: Packet): FoundFrontend | undefined {
  const found = byAge(world.services)
    .filter((service) => notProxied(service, familyOf(packet.destination)) === undefined)
    .flatMap((service) => frontendsOf(world, service, packet));
  return (
    found.find(({ frontend }) => frontend.type === "ClusterIP") ??
    found.find(({ frontend }) => frontend.type === "LoadBalancer") ??
    externalFrontend(world, found, packet) ??
    nodePortFrontend(world, found, packet)
  );
}

/**
 * Returns the frontend by a node port. At another node's address the own node translates for its pods only with policy
 * Cluster and endpoints (NODE-12).
 */
function nodePortFrontend(
  world: ServiceWorld,
  found: readonly FoundFrontend[],
  { destination }: Packet,
): FoundFrontend | undefined {
  const first = found.find(({ frontend }) => frontend.type === "NodePort");
  if (first === undefined || nodePortRefusal(world, destination) === undefined) return first;
  const isElsewhere =
    first.service.externalTrafficPolicy !== "Cluster" ||
    !hasUsable(endpointsOf(world, first.service, first.port, familyOf(destination)).endpoints);
  return { ...first, isElsewhere };
}

/** Returns the frontend by an externalIP, unless that is a node's address and its port another Service's node port. */
function externalFrontend(
  world: ServiceWorld,
  found: readonly FoundFrontend[],
  { destination, destinationPort, protocol }: Packet,
): FoundFrontend | undefined {
  const external = found.find(({ frontend }) => frontend.type === "externalIP");
  if (external === undefined || !isNodeAddress(world, destination)) return external;
  const claimed = { type: "NodePort", address: destination, protocol, port: destinationPort } as const;
  const holder = byAge(world.services).find(
    (service) =>
      notProxied(service, familyOf(destination)) === undefined &&
      service.ports.some((port) => port.protocol === protocol && port.nodePort === destinationPort) &&
      refusalOf(world, service, claimed) === undefined,
  );
  return holder === undefined || holder.key === external.service.key ? external : undefined;
}

function frontendsOf(world: ServiceWorld, service: Service, packet: Packet): readonly FoundFrontend[] {
  const { destination, destinationPort, protocol } = packet;
  const found: FoundFrontend[] = [];
  for (const port of service.ports) {
    if (port.protocol !== protocol) continue;
    for (const type of frontendTypes(world, service, port, packet)) {
      const frontend: Frontend = Object.freeze({
        type,
        service: service.key,
        portName: port.name,
        protocol,
        address: destination,
        port: destinationPort,
      });
      found.push({ frontend, service, port, isElsewhere: false });
    }
  }
  return found;
}

/** Returns whether this node translates packets to node ports at an address: its own, or for pods another node's. */
function servesNodePort(world: ServiceWorld, entry: Packet["entry"], address: Address): boolean {
  return nodePortRefusal(world, address) === undefined || (entry === "pod" && servesElsewhere(world, address));
}

function frontendTypes(
  world: ServiceWorld,
  service: Service,
  port: ServicePort,
  { entry, destination, destinationPort }: Packet,
): readonly Frontend["type"][] {
  const types: Frontend["type"][] = [];
  if (port.port === destinationPort && specialClass(destination) === undefined) {
    if (clusterIpOf(service, familyOf(destination)) === destination) types.push("ClusterIP");
    const isOwn = types.length > 0;
    if (!world.configuration.refuseExternalIps && service.externalIps.includes(destination)) types.push("externalIP");
    if (isVirtualAddress(service, destination)) types.push("LoadBalancer");
    // The Service's own address is one frontend, however often it is named.
    if (isOwn) types.splice(1);
  }
  if (port.nodePort === destinationPort && servesNodePort(world, entry, destination)) types.push("NodePort");
  return types.filter(
    (type) =>
      refusalOf(world, service, {
        type,
        address: destination,
        protocol: port.protocol,
        port: destinationPort,
      }) === undefined,
  );
}

export function clusterIpOf(service: Service, family: Family): Address | undefined {
  return service.clusterIps.find((address) => familyOf(address) === family);
}

/** Returns whether a load balancer delivers packets with this destination for the Service (LB-12). */
export function isVirtualAddress(service: Service, address: Address): boolean {
  return service.loadBalancerIngress.some((ingress) => ingress.address === address && ingress.ipMode === "VIP");
}

/** Returns the proxied Service with this cluster IP; never one for a loopback or other special address. */
export function ownerOfClusterIp(world: ServiceWorld, address: Address): Service | undefined {
  if (specialClass(address) !== undefined) return undefined;
  const family = familyOf(address);
  const isOthers = isProtectedAddress(world, address);
  return byKey(world.services).find(
    (service) =>
      notProxied(service, family) === undefined &&
      clusterIpOf(service, family) === address &&
      (!isOthers || service.key === KUBERNETES_SERVICE.key),
  );
}

function byAge(services: readonly Service[]): readonly Service[] {
  return byKey(services).toSorted((a, b) => (a.createdAt === b.createdAt ? 0 : a.createdAt - b.createdAt));
}

function byKey(services: readonly Service[]): readonly Service[] {
  return services.toSorted((a, b) => (a.key < b.key ? -1 : 1));
}

/** Returns why a Service is not proxied in a family; undefined if it is (HL-01, EN-01, DS-09). */
export function notProxied(service: Service, family: Family): NotProxied | undefined {
  if (service.proxyName !== undefined) return "another proxy";
  if (service.hasHeadlessLabel) return "headless label";
  if (service.type === "ExternalName") return "ExternalName";
  if (service.isHeadless) return "headless";
  return clusterIpOf(service, family) === undefined ? "no cluster IP" : undefined;
}

/** Returns the Services that nearly have a packet which no frontend has. */
export function nearMisses(world: ServiceWorld, packet: Packet): readonly NearMiss[] {
  return byKey(world.services).flatMap((service) =>
    service.ports.flatMap((port) => nearMiss(world, service, port, packet)),
  );
}

function nearMiss(world: ServiceWorld, service: Service, port: ServicePort, packet: Packet): readonly NearMiss[] {
  const { destination, destinationPort, protocol } = packet;
  if (port.protocol !== protocol) return [];
  const isExternal = service.externalIps.includes(destination);
  const ingress = service.loadBalancerIngress.find(({ address }) => address === destination);
  const isOwn = isExternal || ingress !== undefined || service.clusterIps.includes(destination);
  const because = notProxied(service, familyOf(destination));
  if (port.port === destinationPort && isOwn && specialClass(destination) === undefined) {
    if (because !== undefined) return [{ type: "service not proxied", service: service.key, because }];
    const refusal = refusalOf(world, service, claimedBy(service, packet));
    if (refusal !== undefined) return [{ type: "refused", service: service.key, refusal }];
    if (isExternal) return [{ type: "external IPs refused", service: service.key }];
    return [{ type: "load balancer sends to nodes itself", service: service.key }];
  }
  if (port.nodePort !== destinationPort) return [];
  if (because !== undefined) return [{ type: "service not proxied", service: service.key, because }];
  const notServed = nodePortRefusal(world, destination);
  if (notServed !== undefined) {
    return [{ type: "node port not served here", service: service.key, because: notServed }];
  }
  const claimed = { type: "NodePort", address: destination, protocol, port: destinationPort } as const;
  const refusal = refusalOf(world, service, claimed);
  return refusal === undefined ? [] : [{ type: "refused", service: service.key, refusal }];
}

/** Returns the claim of a Service to one of its addresses. */
function claimedBy({ clusterIps }: Service, { destination, destinationPort, protocol }: Packet): Claimed {
  const type = clusterIps.includes(destination) ? "ClusterIP" : "LoadBalancer";
  return { type, address: destination, protocol, port: destinationPort };
}

/** An address and a port that a Service claims. */
export interface Claimed {
  readonly type: Frontend["type"];
  readonly address: Address;
  readonly protocol: Protocol;
  readonly port: number;
}

/**
 * Returns why a Service does not get a socket that it claims; undefined if it may have it (CLAIM-01, CLAIM-02).
 *
 * - A socket that nodes depend on can only belong to `default/kubernetes`, at whichever of its addresses.
 * - No Service gets a protected port as a node port, or at an address of a Node.
 * - The cluster's own addresses are refused as external IPs and load balancers' addresses, unless a Node has them.
 */
export function refusalOf(world: ServiceWorld, service: Service, claimed: Claimed): Refusal | undefined {
  const { protection } = world.configuration;
  if (protection === undefined) return undefined;
  const { type, address } = claimed;
  const socket = ownerOfSocket(world, protection, claimed);
  const isKubernetes = service.key === KUBERNETES_SERVICE.key;
  // A program listens there, so it is never a node port, not even of the API server's own Service.
  if (isKubernetes && (type !== "NodePort" || socket === undefined)) return undefined;
  if (socket !== undefined) return { type: "protected socket", owner: socket };
  if (type === "ClusterIP") return undefined;
  const isOfNode = nodeAddressesOf(world.nodes).has(address);
  const port = isOfNode || type === "NodePort" ? ownerOf(protection.ports, claimed) : undefined;
  if (port !== undefined) return { type: "protected socket", owner: port };
  if (isOfNode || type === "NodePort") return undefined;
  const owner = ownerOfAddress(world, protection.serviceCidrs, address);
  return owner === undefined ? undefined : { type: "cluster address", owner };
}

/** Returns whether an address has a socket that nodes depend on. */
export function isProtectedAddress({ configuration, endpointSlices }: ServiceWorld, address: Address): boolean {
  const { protection } = configuration;
  if (protection === undefined) return false;
  const isConfigured = protection.sockets.some((socket) => socket.address === address);
  return isConfigured || apiServersOf(endpointSlices).some((socket) => socket.address === address);
}

/** Returns whether a Node has an address and the configuration protects sockets at all. */
export function isNodeAddress({ nodes, configuration }: ServiceWorld, address: Address): boolean {
  return configuration.protection !== undefined && nodeAddressesOf(nodes).has(address);
}

function ownerOfSocket(
  { endpointSlices }: ServiceWorld,
  { sockets }: ConfiguredSockets,
  claimed: Claimed,
): string | undefined {
  const configured = ownerOf(
    sockets.filter(({ address }) => address === claimed.address),
    claimed,
  );
  const isApiServer = apiServersOf(endpointSlices).some(
    ({ address, port, protocol }) =>
      address === claimed.address && port === claimed.port && protocol === claimed.protocol,
  );
  return configured ?? (isApiServer ? API_SERVER : undefined);
}

function ownerOf(owners: readonly ProtectedPort[], { protocol, port }: Claimed): string | undefined {
  return owners.findLast((one) => one.protocol === protocol && one.port === port)?.owner;
}

/** Returns all ports of all endpoints of the API server's Service, ready or not. */
function apiServersOf(slices: readonly EndpointSlice[]): readonly Omit<Claimed, "type">[] {
  return slices
    .filter(({ namespace }) => namespace === KUBERNETES_SERVICE.namespace)
    .filter(({ serviceName }) => serviceName === KUBERNETES_SERVICE.name)
    .flatMap(({ ports, endpoints }) =>
      endpoints.flatMap(({ address }) =>
        ports.flatMap(({ protocol, port }) => (port === undefined ? [] : [{ address, protocol, port }])),
      ),
    );
}

const addresses = new WeakMap<readonly Node[], ReadonlySet<Address>>();

/** Cached, since each packet needs it and it is the same for all packets of a world. */
function nodeAddressesOf(nodes: readonly Node[]): ReadonlySet<Address> {
  const known = addresses.get(nodes);
  if (known !== undefined) return known;
  const all = nodes.flatMap((node) => node.addresses.map(({ address }) => address));
  const found = new Set(all.filter((address) => specialClass(address) === undefined));
  addresses.set(nodes, found);
  return found;
}

function ownerOfAddress(
  { nodes, nodeName, configuration }: ServiceWorld,
  serviceCidrs: readonly Cidr[],
  address: Address,
): string | undefined {
  if (METADATA_ADDRESSES.has(address)) return CLUSTER_OWNERS.metadata;
  const judged = [...judgeNodes(nodes, { nodeName, serviceCidrs }).nodes.values()].flatMap(({ podCidrs }) => podCidrs);
  if ([...configuration.clusterCidrs, ...judged].some((cidr) => cidrContains(cidr, address)))
    return CLUSTER_OWNERS.pods;
  // A range that contains the address of a node is a mistake, and says nothing about other addresses.
  const ofNodes = [...nodeAddressesOf(nodes)];
  const ranges = serviceCidrs.filter((cidr) => !ofNodes.some((one) => cidrContains(cidr, one)));
  return ranges.some((cidr) => cidrContains(cidr, address)) ? CLUSTER_OWNERS.services : undefined;
}
