import { type Address, addressToBytes, familyOf, formatAddress } from "../../../kernel/ip/address.ts";
import type { Cidr } from "../../../kernel/ip/cidr.ts";
import type { Endpoint, Service, ServicePort } from "../../../policyd/objects/model.ts";
import type { Packet, SocketAddress } from "../../../policyd/semantics/services/packet.ts";
import type { ServiceWorld } from "../../../policyd/semantics/services/world.ts";

/**
 * Evaluates a packet by a second implementation of docs/behaviours.md, line by line, with which the evaluator is
 * compared. It is as plain as possible, gives no reasons, and shares no code with the evaluator.
 *
 * @returns the packet's possible outcomes in the words of `allowedOutcomes` (agreement.ts)
 */
export function plainReading(world: ServiceWorld, packet: Packet, remembered?: SocketAddress): ReadonlySet<string> {
  const { entry, source, destination } = packet;
  if (entry === "pod" && !world.localPods.has(source)) return new Set(["drop"]);
  if (entry !== "node" && (isLoopback(source) || isLoopback(destination))) return new Set(["drop"]);
  const [door] = doorsTo(world, packet).toSorted(
    (a, b) => RANKS[a.kind] - RANKS[b.kind] || (a.service.key < b.service.key ? -1 : 1),
  );
  if (door === undefined) return new Set([isClusterIp(world, destination) ? "reject" : "pass"]);
  if (!maySourceEnter(world, door, packet)) return new Set(["drop"]);
  const usable = usableEndpoints(world, door, packet);
  if (usable.length === 0) {
    return new Set([world.configuration.tcpReset && packet.protocol === "TCP" ? "tcp reset" : "reject"]);
  }
  const isLocalOnly = isForLocalOnly(door, packet);
  const chosen = chosenOf(world, usable, isLocalOnly);
  if (chosen.length === 0) return new Set(["drop"]);
  const kept = chosen.filter(({ address, port }) => address === remembered?.address && port === remembered.port);
  const candidates = door.service.affinitySeconds !== undefined && kept.length > 0 ? kept : chosen;
  return new Set(candidates.map((one) => fateAt(world, packet, door, isLocalOnly, one)));
}

/** One way into a Service. */
interface Door {
  readonly service: Service;
  readonly port: ServicePort;
  readonly kind: "cluster" | "address" | "node port";
}

/** The order of SVC-18: cluster IPs, then other addresses of Services, then node ports. */
const RANKS = { cluster: 0, address: 1, "node port": 2 } as const;

function doorsTo(world: ServiceWorld, { destination, destinationPort, protocol }: Packet): readonly Door[] {
  return world.services
    .filter((service) => isServed(service, destination))
    .flatMap((service) =>
      service.ports
        .filter((port) => port.protocol === protocol)
        .flatMap((port): readonly Door[] => {
          const isAtPort = port.port === destinationPort;
          const isExternal = service.externalIps.includes(destination) && !world.configuration.refuseExternalIps;
          return [
            ...(isAtPort && service.clusterIps.includes(destination)
              ? [{ service, port, kind: "cluster" } as const]
              : []),
            ...(isAtPort && (isExternal || isBalancer(service, destination))
              ? [{ service, port, kind: "address" } as const]
              : []),
            ...(port.nodePort === destinationPort && servesNodePorts(world, destination)
              ? [{ service, port, kind: "node port" } as const]
              : []),
          ];
        }),
    )
    .filter((door) => !isProtected(world, door, { destination, destinationPort, protocol }));
}

/** Whether a protected socket keeps a frontend from this address (CLAIM-01, CLAIM-02). */
function isProtected(
  world: ServiceWorld,
  { service, kind }: Door,
  { destination, destinationPort, protocol }: Pick<Packet, "destination" | "destinationPort" | "protocol">,
): boolean {
  const { protection, clusterCidrs } = world.configuration;
  if (protection === undefined) return false;
  const isSocket = protectedSockets(world).some(
    (one) => one.address === destination && one.port === destinationPort && one.protocol === protocol,
  );
  if (service.key === "default/kubernetes") return isSocket && kind === "node port";
  if (isSocket) return true;
  const isPort = protection.ports.some((one) => one.port === destinationPort && one.protocol === protocol);
  if (kind === "node port") return isPort;
  if (kind === "cluster") return false;
  const ofNodes = world.nodes.flatMap(({ addresses }) => addresses.map(({ address }) => address));
  if (ofNodes.includes(destination)) return isPort;
  const ranges = protection.serviceCidrs.filter((range) => !ofNodes.some((one) => isWithin(one, range)));
  const networks = [...ranges, ...clusterCidrs, ...world.nodes.flatMap(({ podCidrs }) => podCidrs)];
  return networks.some((range) => isWithin(destination, range));
}

function protectedSockets(world: ServiceWorld): readonly (SocketAddress & Pick<Packet, "protocol">)[] {
  const found = [...(world.configuration.protection?.sockets ?? [])].map(({ address, port, protocol }) => ({
    address,
    port,
    protocol,
  }));
  for (const slice of world.endpointSlices) {
    if (slice.namespace !== "default" || slice.serviceName !== "kubernetes") continue;
    for (const { port, protocol } of slice.ports) {
      if (port !== undefined) for (const { address } of slice.endpoints) found.push({ address, port, protocol });
    }
  }
  return found;
}

/** Whether Drawbridge serves the Service (HL-01, EN-01, DS-09): it has a cluster IP of the packet's family. */
function isServed(service: Service, destination: Address): boolean {
  if (service.type === "ExternalName" || service.isHeadless || service.hasHeadlessLabel) return false;
  return service.proxyName === undefined && service.clusterIps.some((one) => familyOf(one) === familyOf(destination));
}

function isClusterIp(world: ServiceWorld, address: Address): boolean {
  const isOthers =
    world.configuration.protection !== undefined && protectedSockets(world).some((one) => one.address === address);
  return world.services.some(
    (service) =>
      isServed(service, address) &&
      service.clusterIps.includes(address) &&
      (!isOthers || service.key === "default/kubernetes"),
  );
}

/**
 * Whether the node serves this address of a load balancer (LB-12): an address with ipMode Proxy is left to the
 * balancer.
 */
function isBalancer(service: Service, address: Address): boolean {
  return service.loadBalancerIngress.some((one) => one.address === address && one.ipMode === "VIP");
}

/** Whether node ports are served at this address (NODE-03, NODE-04, NODE-05). */
function servesNodePorts(world: ServiceWorld, address: Address): boolean {
  const { nodePortAddresses } = world.configuration;
  if (!world.nodeAddresses.has(address) || isLoopback(address)) return false;
  if (nodePortAddresses.length === 0) return true;
  return nodePortAddresses.some((entry) =>
    entry === "primary" ? primaryOf(world, address) === address : isWithin(address, entry),
  );
}

/** Returns the node's primary address in the family of another address: internal addresses come first. */
function primaryOf({ nodes, nodeName }: ServiceWorld, other: Address): Address | undefined {
  const own = nodes
    .filter(({ name }) => name === nodeName)
    .flatMap(({ addresses }) => addresses)
    .filter(({ address }) => familyOf(address) === familyOf(other));
  return (own.find(({ type }) => type === "InternalIP") ?? own.find(({ type }) => type === "ExternalIP"))?.address;
}

/**
 * Whether the source ranges admit the sender (LB-05, LB-06); an annotation applies them to all frontends used from
 * outside.
 */
function maySourceEnter(world: ServiceWorld, { service, kind }: Door, { source, destination }: Packet): boolean {
  const { loadBalancerSourceRanges: ranges } = service;
  if (ranges === undefined || kind === "cluster") return true;
  const isForAll = service.annotations["drawbridge.dev/enforce-source-ranges"] === "true";
  if (!isForAll && !isBalancer(service, destination)) return true;
  if (ranges.some((range) => isWithin(source, range))) return true;
  const primary = primaryOf(world, source);
  return isBalancer(service, source) && primary !== undefined && ranges.some((range) => isWithin(primary, range));
}

interface PlainEndpoint extends SocketAddress {
  readonly isReady: boolean;
  readonly isLocal: boolean;
  readonly hints: Endpoint;
}

/**
 * Returns the endpoints that may get connections at all: EPS-01 to EPS-09, NOSEL-03 to NOSEL-06, SVC-02, SVC-03,
 * SVC-05.
 */
function usableEndpoints(
  world: ServiceWorld,
  { service, port }: Door,
  { destination }: Packet,
): readonly PlainEndpoint[] {
  const all = world.endpointSlices
    .filter((slice) => slice.namespace === service.namespace && slice.serviceName === service.name)
    .filter((slice) => slice.proxyName === undefined && !slice.hasHeadlessLabel)
    .filter((slice) => slice.addressType === `IPv${familyOf(destination)}`)
    .toSorted((a, b) => (a.key < b.key ? -1 : 1))
    .flatMap((slice) =>
      slice.ports
        .filter((one) => one.name === port.name && one.protocol === port.protocol)
        .flatMap((one) => (one.port === undefined ? [] : [one.port]))
        .flatMap((number) => slice.endpoints.map((hints) => ({ hints, address: hints.address, port: number }))),
    )
    .filter(({ address }) => !isNobodys(address))
    .filter(({ hints: { isReady, isServing, isTerminating } }) => isReady || (isServing && isTerminating))
    .map((one) => ({ ...one, isReady: one.hints.isReady, isLocal: one.hints.nodeName === world.nodeName }));
  return [...Map.groupBy(all, ({ address, port: number }) => `${address} ${number}`).values()].flatMap((same) => {
    const best = same.find(({ isReady }) => isReady) ?? same[0];
    return best === undefined ? [] : [{ ...best, isLocal: same.some(({ isLocal }) => isLocal) }];
  });
}

/** Whether only local endpoints may be chosen (ETP-02, ETP-04, ETP-06 to ETP-08, ITP-01, ITP-04). */
function isForLocalOnly({ service, kind }: Door, { entry }: Packet): boolean {
  if (kind === "cluster") return service.internalTrafficPolicy === "Local";
  return service.externalTrafficPolicy === "Local" && entry === "outside";
}

/**
 * Chooses among the usable endpoints: by TERM-01 and TERM-03, then for ready ones of the whole cluster by TD-01 and
 * HINT-02 to HINT-06.
 */
function chosenOf(
  world: ServiceWorld,
  usable: readonly PlainEndpoint[],
  isLocalOnly: boolean,
): readonly PlainEndpoint[] {
  const near = usable.filter(({ isLocal }) => isLocal || !isLocalOnly);
  const ready = near.filter(({ isReady }) => isReady);
  if (ready.length === 0 || isLocalOnly) return ready.length === 0 ? near : ready;
  const zone = world.nodes.find(({ name }) => name === world.nodeName)?.labels["topology.kubernetes.io/zone"];
  for (const [key, name] of [
    ["nodeHints", world.nodeName],
    ["zoneHints", zone],
  ] as const) {
    const hinted = ready.filter(({ hints }) => name !== undefined && hints[key]?.includes(name));
    if (ready.every(({ hints }) => (hints[key] ?? []).length > 0) && hinted.length > 0) return hinted;
  }
  return ready;
}

/** Returns the outcome at an endpoint: a rejection by SVC-24, or the endpoint and whether the packet is masqueraded. */
function fateAt(world: ServiceWorld, packet: Packet, door: Door, isLocalOnly: boolean, to: PlainEndpoint): string {
  if (isClusterIp(world, to.address)) return "reject";
  const isHidden = isSenderHidden(world, packet, door, isLocalOnly, to.address);
  return `${formatAddress(to.address)} ${to.port}${isHidden ? " masqueraded" : ""}`;
}

/**
 * Whether the endpoint sees the node's address as the source: SVC-13, SVC-14, POD-12, ETP-01, ETP-02, ETP-04, ETP-06,
 * XIP-02, NODE-07, LB-04.
 */
function isSenderHidden(
  world: ServiceWorld,
  { entry, source }: Packet,
  { service, kind }: Door,
  isLocalOnly: boolean,
  endpoint: Address,
): boolean {
  const podRanges = [...world.configuration.clusterCidrs, ...world.nodes.flatMap(({ podCidrs }) => podCidrs)];
  const isOfPods = podRanges.some((range) => isWithin(source, range));
  // The bridge's address belongs to the range of the pods.
  if (entry === "node") return kind !== "cluster" || !isOfPods;
  if (world.nodeAddresses.has(endpoint)) return false;
  if (entry === "pod" && source === endpoint) return true;
  if (kind === "cluster") return entry === "outside" && !isOfPods;
  return service.externalTrafficPolicy === "Cluster" && !isLocalOnly;
}

/** Whether an address cannot be an endpoint's (NOSEL-06), by the text of the address. */
function isNobodys(address: Address): boolean {
  return /^(?:127\.|169\.254\.|22[4-9]\.|23\d\.|0\.0\.0\.0$|::1?$|fe[89ab].:|ff..:)/.test(formatAddress(address));
}

function isLoopback(address: Address): boolean {
  return /^(?:127\.|::1$)/.test(formatAddress(address));
}

function isWithin(address: Address, { address: network, prefixLength }: Cidr): boolean {
  const [one, other] = [bitsOf(address), bitsOf(network)];
  return one.length === other.length && one.slice(0, prefixLength) === other.slice(0, prefixLength);
}

function bitsOf(address: Address): string {
  return [...addressToBytes(address)].map((byte) => byte.toString(2).padStart(8, "0")).join("");
}
