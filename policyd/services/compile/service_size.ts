import { familyOf } from "../../../kernel/ip/address.ts";
import type { EndpointSlice, Service, ServicePort } from "../../cluster/model.ts";
import type { CompileContext } from "./context.ts";
import type { SlicePorts } from "./endpoints.ts";
import { slicePorts } from "./endpoints.ts";
import type { RuleFamily } from "./frontend_space.ts";
import type { Frontend } from "./frontends.ts";
import { familiesOf, frontendsOf } from "./frontends.ts";
import { isRestricted } from "./source_ranges.ts";

/**
 * The most pairs of a port and an address that a Service may come to, where source ranges hold of the three: elements and
 * the time they take stay bounded, of which a small object asks for millions. The API server bounds none of these lists.
 */
export const MOST_FRONTENDS = 16_384;

/**
 * The most pairs of a frontend and an endpoint, each of which is an element or two: 10,000 pods of both families behind three
 * ports, each with an address, a load balancer's and a node port, are 180,000.
 */
export const MOST_DESTINATIONS = 262_144;

/** As much of a Service as is served. */
export interface ServedPart {
  /** As it was given, or for its size without all by which it is reached but its own addresses, or without ports. */
  readonly service: Service;
  /** That it is not all of it, for people. */
  readonly problems: readonly string[];
}

/**
 * As much of a Service as is served, at the cost of its ports alone: all of it, or where that were more than
 * {@link MOST_FRONTENDS} its own addresses, or where these alone were more than that nothing.
 */
export function servedPart(service: Service, context: CompileContext): ServedPart {
  const count = frontendCount(service, context);
  if (count <= MOST_FRONTENDS) return { service, problems: NONE };
  const what = "pairs of a port and an address, source ranges counted";
  return cut(service, ownCount(service) <= MOST_FRONTENDS, `${count} ${what}; expected at most ${MOST_FRONTENDS}`);
}

/**
 * The same of a Service with its endpoints, where what its frontends come to with them may be {@link MOST_DESTINATIONS} pairs.
 *
 * @param slices those of the Service; others are passed over
 * @returns the ports of its slices as well
 */
export function servedWith(
  whole: Service,
  slices: readonly EndpointSlice[],
  context: CompileContext,
): ServedPart & { readonly ports: SlicePorts } {
  const { service: reachable, problems } = servedPart(whole, context);
  const ports = slicePorts(slices, whole);
  const { service, problems: more } = withinDestinations(reachable, ports, context);
  return { service, ports, problems: [...problems, ...more] };
}

function withinDestinations(service: Service, ports: SlicePorts, context: CompileContext): ServedPart {
  if (roughCount(service, ports) <= MOST_DESTINATIONS) return { service, problems: NONE };
  const count = destinationCount(service, ports, context);
  if (count <= MOST_DESTINATIONS) return { service, problems: NONE };
  const isOwnKept = destinationCount(ownPart(service), ports, context) <= MOST_DESTINATIONS;
  return cut(service, isOwnKept, `${count} pairs of a frontend and an endpoint; expected at most ${MOST_DESTINATIONS}`);
}

function cut(service: Service, isOwnKept: boolean, why: string): ServedPart {
  const text = `Service ${service.key}: ${why}: ${isOwnKept ? "only its cluster IPs are" : "nothing of it is"} served`;
  const own = ownPart(service);
  return { service: isOwnKept ? own : { ...own, ports: NONE }, problems: [text] };
}

function ownPart(service: Service): Service {
  const ports = service.ports.map((port) => ({ ...port, nodePort: undefined }));
  return { ...service, ports, externalIps: NONE, loadBalancerIngress: NONE };
}

/** Never less than {@link destinationCount}, and for nearly all Services all that has to be counted. */
function roughCount({ ports, clusterIps, externalIps, loadBalancerIngress }: Service, listed: SlicePorts): number {
  let endpoints = 0;
  for (const list of listed.values()) for (const one of list) endpoints += one.endpoints.length;
  return ports.length * (clusterIps.length + externalIps.length + loadBalancerIngress.length + 1) * endpoints;
}

function destinationCount(service: Service, ports: SlicePorts, context: CompileContext): number {
  let count = 0;
  for (const family of familiesOf(service)) {
    for (const port of service.ports) {
      const endpoints = endpointCount(ports, port, family);
      if (endpoints > 0) count += frontendsOf(service, port, family, context).length * endpoints;
    }
  }
  return count;
}

/** All endpoints of a slice are of one family. */
function endpointCount(ports: SlicePorts, { name, protocol }: ServicePort, family: RuleFamily): number {
  return (ports.get(name) ?? NONE).reduce((sum, one) => {
    const [first] = one.endpoints;
    const isOurs = one.protocol === protocol && first !== undefined && familyOf(first.address) === family;
    return isOurs ? sum + one.endpoints.length : sum;
  }, 0);
}

const NONE: readonly never[] = [];

/** Without a look at the addresses: those of no use cost a look at each with each port, too. */
function frontendCount(service: Service, { refuseExternalIps }: CompileContext): number {
  const families = familiesOf(service).length;
  if (families === 0) return 0;
  const { ports, externalIps, loadBalancerIngress } = service;
  const nodePorts = ports.reduce((sum, { nodePort }) => (nodePort === undefined ? sum : sum + 1), 0);
  return (
    ownCount(service) +
    ports.length * loadBalancerIngress.length * sourceCount(service, "load balancer") +
    (refuseExternalIps ? 0 : ports.length * externalIps.length * sourceCount(service, "external")) +
    nodePorts * families * sourceCount(service, "node port")
  );
}

function ownCount({ ports, clusterIps }: Service): number {
  return ports.length * clusterIps.length;
}

/** How many sources a frontend may have at most, those of the balancer's own addresses among them; one is everybody. */
function sourceCount(service: Service, type: Frontend["type"]): number {
  if (!isRestricted(service, type)) return 1;
  const { loadBalancerSourceRanges = NONE, loadBalancerIngress } = service;
  return Math.max(1, loadBalancerSourceRanges.length + loadBalancerIngress.length);
}
