import { familyOf, type Family } from "../../../kernel/ip/address.ts";
import type { EndpointSlice, Service, ServicePort } from "../../../objects/model.ts";
import type { CompileContext } from "../rules/context.ts";
import { type SlicePorts, slicePorts } from "./endpoints.ts";
import type { Frontend } from "../../../objects/socket_refusal.ts";
import { familiesOf, frontendsOf } from "./frontends.ts";
import { isRestricted } from "./source_ranges.ts";

/**
 * The largest number of pairs of a port and an address, multiplied by source ranges where those apply, that a Service
 * may have. It bounds the elements and the time they take: a small object could ask for millions, and the API server
 * bounds none of these lists.
 */
export const MOST_FRONTENDS = 16_384;

/** Returns an upper bound of the pairs of a frontend and an endpoint; for nearly all Services nothing else is counted. */
export function roughSize(service: Service, slices: readonly EndpointSlice[]): number {
  const { ports, clusterIps, externalIps, loadBalancerIngress } = service;
  // Usually no two ports have one name.
  const alike = ports.length + 1 - new Set(ports.map(({ name }) => name)).size;
  const endpoints = slices.reduce((sum, slice) => sum + slice.ports.length * slice.endpoints.length, ports.length);
  return (clusterIps.length + externalIps.length + loadBalancerIngress.length + 1) * endpoints * alike;
}

export interface ServedPart {
  /** The Service as it was given, or if it is too large, only with its own addresses, or without ports. */
  readonly service: Service;
  /** Messages for administrators which say that it is not all of it. */
  readonly problems: readonly string[];
}

/** The part of a Service that is served whatever its endpoints. */
export interface ReachablePart extends ServedPart {
  /** The number of its pairs of a port and an address, source ranges counted. */
  readonly count: number;
  /** The room with which more of the Service would be served; undefined if it has no lack of room. */
  readonly needs?: number | undefined;
}

/**
 * Returns the part of a Service that is served, at a cost that only depends on its ports: all of it, or if that exceeds
 * {@link MOST_FRONTENDS} or the room that its namespace has, its own addresses, or if these exceed it too, nothing.
 */
export function servedPart(service: Service, context: CompileContext): ReachablePart {
  const count = frontendCount(service, context);
  const most = Math.min(MOST_FRONTENDS, context.room ?? MOST_FRONTENDS);
  if (count <= most) return { service, problems: NONE, count };
  const own = ownCount(service);
  const isOwnKept = own <= most;
  const what = `${count} pairs of a port and an address, source ranges counted`;
  const why =
    count > MOST_FRONTENDS ? `; expected at most ${MOST_FRONTENDS}` : ", for which its namespace has no room on a node";
  const next = isOwnKept ? count : own;
  const needs = next > MOST_FRONTENDS ? undefined : next;
  return { ...cut(service, isOwnKept, `${what}${why}`), count: isOwnKept ? own : 0, needs };
}

/**
 * Returns the same for a Service with its endpoints. Of one with more pairs of a frontend and an endpoint than its
 * namespace has room for, some endpoints are used, at least one of each port. So a Service that grows a little is still
 * served after others have used up the pool.
 *
 * @param given the whole Service, or its part that {@link servedPart} returned with the same room
 * @param slices those of the Service; others are ignored
 * @returns also the ports of its slices, and whether more would be served if its namespace had more room
 */
export function servedWith(
  given: Service,
  slices: readonly EndpointSlice[],
  context: CompileContext,
): ServedPart & { readonly ports: SlicePorts; readonly lacksRoom: boolean } {
  const { service, problems, needs } = servedPart(given, context);
  const { ports, problems: ofRoom } = withinRoom(
    service,
    slicePorts(slices, service),
    context,
    roughSize(service, slices),
  );
  const lacksRoom = needs !== undefined || ofRoom.length > 0;
  return { service, ports, problems: [...problems, ...ofRoom], lacksRoom };
}

function withinRoom(
  service: Service,
  ports: SlicePorts,
  context: CompileContext,
  rough: number,
): { readonly ports: SlicePorts; readonly problems: readonly string[] } {
  const { room = Number.POSITIVE_INFINITY } = context;
  if (rough <= room) return { ports, problems: NONE };
  const count = destinationCount(service, ports, context);
  if (count <= room) return { ports, problems: NONE };
  const fewer = [...ports].map(([name, lists]) => {
    let passed = 0;
    const some = lists.map((one) => {
      const first = Math.ceil((passed * room) / count);
      passed += one.endpoints.length;
      return { ...one, endpoints: one.endpoints.slice(0, Math.ceil((passed * room) / count) - first) };
    });
    return [name, some] as const;
  });
  const why = "pairs of a frontend and an endpoint, for which its namespace has no room on a node";
  return { ports: new Map(fewer), problems: [`Service ${service.key}: ${count} ${why}: only some endpoints are used`] };
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

/** Counts the endpoints of a port in a family. All endpoints of a slice are of one family. */
function endpointCount(ports: SlicePorts, { name, protocol }: ServicePort, family: Family): number {
  return (ports.get(name) ?? NONE).reduce((sum, one) => {
    const [first] = one.endpoints;
    const isOurs = one.protocol === protocol && first !== undefined && familyOf(first.address) === family;
    return isOurs ? sum + one.endpoints.length : sum;
  }, 0);
}

const NONE: readonly never[] = [];

/** Counts pairs without checking the addresses: also addresses that cannot be used cost a check for each port. */
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

/** Returns the most sources a frontend may have, including the load balancer's own addresses; 1 stands for everyone. */
function sourceCount(service: Service, type: Frontend["type"]): number {
  if (!isRestricted(service, type)) return 1;
  const { loadBalancerSourceRanges = NONE, loadBalancerIngress } = service;
  return Math.max(1, loadBalancerSourceRanges.length + loadBalancerIngress.length);
}
