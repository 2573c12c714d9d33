import * as fc from "fast-check";
import type { Endpoint, Service } from "../../../objects/model.ts";
import { primaryAddresses } from "../../../objects/semantics/services/node_port.ts";
import { type ServiceCase, serviceCases } from "./arbitrary_world.ts";

/** A node port of Services in the random worlds. */
const NODE_PORT = 30_012;

/** Inputs that the API server would refuse or that people rarely write, but that the node has to handle. */
const twists = fc.record({
  tcpReset: fc.boolean(),
  externalIp: fc.constantFrom("none", "none", "none", "none", "none", "none", "cluster IP", "node port"),
  endpoint: fc.constantFrom("none", "none", "cluster IP", "node"),
  type: fc.constantFrom(undefined, undefined, undefined, undefined, undefined, undefined, "ClusterIP", "NodePort"),
});
type Twist = typeof twists extends fc.Arbitrary<infer T> ? T : never;

/** Random clusters, each with something unusual in it. */
export const twistedCases: fc.Arbitrary<ServiceCase> = fc.tuple(serviceCases, twists).map(twisted);

function twisted([{ world, packet }, { tcpReset, externalIp, endpoint, type }]: [ServiceCase, Twist]): ServiceCase {
  const clusterIps = world.services.flatMap((service) => service.clusterIps);
  const [own = packet.destination] = primaryAddresses(world);
  const others = { none: [], "cluster IP": clusterIps.slice(-1), "node port": [own] }[externalIp];
  const target = { none: undefined, "cluster IP": clusterIps[0], node: own }[endpoint];
  const isAtNodePort = externalIp === "node port";
  const destinationPort = isAtNodePort ? NODE_PORT : (world.services[0]?.ports[0]?.port ?? packet.destinationPort);
  const change = (service: Service): Service => ({
    ...service,
    type: type ?? service.type,
    externalIps: [...service.externalIps, ...others],
    ports: service.ports.map((port) => (isAtNodePort ? { ...port, port: NODE_PORT } : port)),
  });
  const move = (one: Endpoint, place: number): Endpoint =>
    place > 0 || target === undefined ? one : { ...one, address: target };
  return {
    world: {
      ...world,
      configuration: { ...world.configuration, tcpReset },
      services: world.services.map((service, place) => (place === 0 ? change(service) : service)),
      endpointSlices: world.endpointSlices.map((slice) => ({ ...slice, endpoints: slice.endpoints.map(move) })),
    },
    packet: others.reduce((to, destination) => ({ ...to, destination, destinationPort }), packet),
  };
}
