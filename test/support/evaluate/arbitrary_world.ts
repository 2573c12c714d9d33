import * as fc from "fast-check";
import { type Address, parseAddress } from "../../../kernel/ip/address.ts";
import { parseCidr } from "../../../kernel/ip/cidr.ts";
import type { Packet } from "../../../objects/semantics/services/packet.ts";
import type { ServiceWorld } from "../../../objects/semantics/services/world.ts";
import {
  clusterManifests,
  NODE_PORTS,
  type Places,
  type RandomCluster,
  randomClusters,
  type RandomService,
  SERVICE_PORTS,
} from "./arbitrary_cluster.ts";
import { ipv6Twin } from "./family_twin.ts";
import { storeOf } from "./store.ts";

/** A cluster with its Services, and a packet on node n1. */
export interface ServiceCase {
  readonly world: ServiceWorld;
  readonly packet: Packet;
}

/** The cluster of {@link serviceCases}. */
export const PLACES: Places = {
  clusterIps: ["10.96.0.1", "10.96.0.2", "10.96.0.3", "10.96.0.4"],
  externalIps: ["192.0.2.1", "192.0.2.2", "10.240.0.5"],
  balancerIps: ["203.0.113.1", "10.240.0.5"],
  nodeIps: ["10.240.0.5", "10.244.1.1", "192.0.2.77"],
  otherNode: "10.240.0.4",
  localPods: ["10.244.1.5", "10.244.1.6", "10.244.1.9"],
  remotePods: ["10.244.0.5", "10.244.0.6", "10.244.0.7"],
  others: [
    { address: "10.4.5.6", nodeName: undefined },
    { address: "169.254.1.1", nodeName: undefined },
  ],
  outside: ["10.188.0.4", "198.51.100.9", "10.244.0.9"],
  sourceRanges: ["10.188.0.0/16", "10.240.0.0/24", "198.51.100.0/24"],
  podCidrs: ["10.244.1.0/24", "10.244.0.0/24"],
  chosenNodePorts: "192.0.2.0/24",
};

/** A random packet: its sender and its target, all addresses of IPv4. */
interface RandomPacket {
  readonly entry: Packet["entry"];
  readonly source: string;
  readonly protocol: Packet["protocol"];
  readonly destination: string;
  readonly port: number;
}

const often = fc.integer({ min: 1, max: 20 }).map((number) => number % 5 !== 0);

function senders({ localPods, nodeIps, outside }: Places) {
  return fc.oneof(
    fc.record({ entry: fc.constant("pod" as const), source: fc.constantFrom(...localPods) }),
    fc.record({ entry: fc.constant("node" as const), source: fc.constantFrom(...nodeIps.slice(0, 2)) }),
    fc.record({ entry: fc.constant("outside" as const), source: fc.constantFrom(...outside) }),
  );
}

/** Generates the targets of packets: a Service's own address and port, or a node and a node port. */
function targets({ clusterIps, externalIps, balancerIps, nodeIps, otherNode }: Places) {
  return fc.oneof(
    {
      weight: 7,
      arbitrary: fc.record({
        destination: fc.constantFrom(...clusterIps, ...externalIps, ...balancerIps),
        port: fc.constantFrom(...SERVICE_PORTS, 81),
      }),
    },
    {
      weight: 3,
      arbitrary: fc.record({
        destination: fc.constantFrom(...nodeIps, otherNode),
        port: fc.constantFrom(...NODE_PORTS).chain((port) => fc.nat(3).map((index) => port + 10 * index)),
      }),
    },
  );
}

/** Generates packets that are likely to be for one of a cluster's Services, once that cluster is known. */
function randomPackets(places: Places): fc.Arbitrary<(cluster: RandomCluster) => RandomPacket> {
  return fc
    .record({
      sender: senders(places),
      target: targets(places),
      protocol: fc.constantFrom("TCP", "TCP", "TCP", "UDP", "SCTP" as const),
      aim: fc.record({ isOn: often, service: fc.nat(3), frontend: fc.nat(7), protocol: fc.nat(1) }),
    })
    .map(({ sender, target, protocol, aim }) => ({ services }) => ({
      protocol,
      ...sender,
      ...(aimed(places, services, aim) ?? target),
    }));
}

interface Aim {
  readonly isOn: boolean;
  readonly service: number;
  readonly frontend: number;
  readonly protocol: number;
}

/** Returns, most often, an address, port and protocol of one of the Services. */
function aimed(
  { nodeIps }: Places,
  services: readonly RandomService[],
  { isOn, service: number, frontend, protocol }: Aim,
): Pick<RandomPacket, "destination" | "port"> | undefined {
  const index = number % services.length;
  const one = services[index];
  if (one === undefined || !isOn) return undefined;
  const own = [one.clusterIP, ...one.externalIPs, ...one.ingress].map((destination) => ({
    destination,
    port: one.port,
  }));
  const node = one.nodePort === 0 ? [] : [{ destination: nodeIps[0], port: one.nodePort + 10 * index }];
  const all = [...own, ...node];
  const goal = all[frontend % all.length];
  const used = one.protocols[protocol % one.protocols.length];
  return goal && { ...goal, ...(used === undefined ? {} : { protocol: used }) };
}

/**
 * Returns a cluster and a packet in the form that the evaluator takes. @param inFamily converts the addresses in a text
 * to the wanted family
 */
function serviceCase(
  places: Places,
  cluster: RandomCluster,
  { entry, protocol, source, destination, port }: RandomPacket,
  inFamily: <T>(value: T) => T,
): ServiceCase {
  const addresses = (texts: readonly string[]): ReadonlySet<Address> =>
    new Set(inFamily(texts).map((text) => parseAddress(text)));
  const store = storeOf(inFamily(clusterManifests(places, cluster)));
  return {
    world: {
      nodeName: "n1",
      services: [...store.services.values()],
      endpointSlices: [...store.endpointSlices.values()],
      nodes: [...store.nodes.values()],
      localPods: addresses(places.localPods),
      nodeAddresses: addresses([...places.nodeIps, "127.0.0.1"]),
      configuration: {
        nodePortAddresses: inFamily(cluster.nodePortAddresses).map((text) =>
          text === "primary" ? "primary" : parseCidr(text),
        ),
        refuseExternalIps: cluster.refuseExternalIps,
        tcpReset: false,
        clusterCidrs: [],
      },
    },
    packet: {
      entry,
      protocol,
      source: parseAddress(inFamily(source)),
      sourcePort: 40_000,
      destination: parseAddress(inFamily(destination)),
      destinationPort: port,
    },
  };
}

/** Random clusters of one family, each with a packet that is likely to be for one of its Services. */
export const serviceCases: fc.Arbitrary<ServiceCase> = fc
  .record({ cluster: randomClusters(PLACES), packet: randomPackets(PLACES), isIpv6: fc.boolean() })
  .map(({ cluster, packet, isIpv6 }) =>
    serviceCase(PLACES, cluster, packet(cluster), (value) => (isIpv6 ? (ipv6Twin(value) as typeof value) : value)),
  );
