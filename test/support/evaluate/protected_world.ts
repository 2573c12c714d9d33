import * as fc from "fast-check";
import { hostCidr } from "../../../kernel/ip/cidr.ts";
import type { EndpointSlice, Service } from "../../../objects/model.ts";
import type { ProtectedSocket } from "../../../objects/socket_refusal.ts";
import { isSpecial } from "../../../policyd/services/elements/endpoints.ts";
import type { ServiceWorld } from "../../../objects/semantics/services/world.ts";
import { type ServiceCase, serviceCases } from "./arbitrary_world.ts";

/** The protected sockets of a world, as numbers that choose among its frontends. */
const choices = fc.record({
  sockets: fc.array(fc.nat(), { maxLength: 4 }),
  ports: fc.array(fc.nat(), { maxLength: 2 }),
  ranges: fc.array(fc.nat(), { maxLength: 2 }),
  /** The number of the Service that becomes the API server's own, if any. */
  kubernetes: fc.option(fc.nat(3), { nil: undefined }),
  /** The number of the socket that the packet is sent to; undefined leaves the packet unchanged. */
  aim: fc.option(fc.nat(), { nil: undefined }),
});

/**
 * Random worlds in which some of the frontends that Services claim are protected, with packets that are likely to be
 * for one of them.
 */
export const protectedCases: fc.Arbitrary<ServiceCase> = fc
  .tuple(serviceCases, choices)
  .map(([{ world, packet }, chosen]) => {
    const named = chosen.kubernetes === undefined ? world : withKubernetes(world, chosen.kubernetes);
    const claimed = claimedSockets(named);
    const pick = <T>(list: readonly T[], numbers: readonly number[]): readonly T[] =>
      list.length === 0 ? [] : numbers.flatMap((number) => list[number % list.length] ?? []);
    const protection = {
      sockets: pick(claimed, chosen.sockets),
      ports: pick(claimed, chosen.ports).map(({ protocol, port, owner }) => ({ protocol, port, owner })),
      serviceCidrs: pick(claimed, chosen.ranges).map(({ address }) => hostCidr(address)),
    };
    const [goal] = pick(claimed, chosen.aim === undefined ? [] : [chosen.aim]);
    const aimed = goal && { destination: goal.address, destinationPort: goal.port, protocol: goal.protocol };
    return {
      world: { ...named, configuration: { ...named.configuration, protection } },
      packet: { ...packet, ...aimed },
    };
  });

/** Returns all sockets that Services of a world claim, node ports at each address of the node. */
function claimedSockets({ services, nodeAddresses }: ServiceWorld): readonly ProtectedSocket[] {
  const owner = "a test";
  return services.flatMap(({ ports, clusterIps, externalIps, loadBalancerIngress }) =>
    ports.flatMap(({ protocol, port, nodePort }) => [
      ...[...clusterIps, ...externalIps, ...loadBalancerIngress.map(({ address }) => address)].map((address) => ({
        address,
        protocol,
        port,
        owner,
      })),
      ...(nodePort === undefined
        ? []
        : [...nodeAddresses]
            .filter((one) => !isSpecial(one))
            .map((address) => ({ address, protocol, port: nodePort, owner }))),
    ]),
  );
}

/** Returns the world with one Service renamed to `default/kubernetes`, with its slices. */
function withKubernetes(world: ServiceWorld, number: number): ServiceWorld {
  const index = number % world.services.length;
  const before = world.services[index];
  if (before === undefined) return world;
  const rename = (service: Service): Service =>
    service === before ? { ...service, namespace: "default", name: "kubernetes", key: "default/kubernetes" } : service;
  const move = (slice: EndpointSlice): EndpointSlice =>
    slice.namespace === before.namespace && slice.serviceName === before.name
      ? { ...slice, namespace: "default", serviceName: "kubernetes" }
      : slice;
  return { ...world, services: world.services.map(rename), endpointSlices: world.endpointSlices.map(move) };
}
