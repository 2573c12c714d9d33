import { type Address, familyOf, type Family } from "../../../kernel/ip/address.ts";
import { type Cidr, cidrContains } from "../../../kernel/ip/cidr.ts";
import { BROADCAST, LINK_LOCAL, LOOPBACK, MULTICAST, UNSPECIFIED } from "../../../kernel/ip/special.ts";
import type { Endpoint, EndpointSlice, Protocol, Service, ServicePort } from "../../../objects/model.ts";
import type { CompileContext } from "../rules/context.ts";
import { type SocketAddress, type SocketKey, socketKey } from "./socket_address.ts";

/** An endpoint of a Service's port, merged from all its slices: each address and port once. */
export interface PortEndpoint extends SocketAddress {
  readonly state: "ready" | "terminating";
  readonly isLocal: boolean;
  readonly zoneHints: readonly string[];
  readonly nodeHints: readonly string[];
}

/** A port of one slice. */
interface SlicePort {
  readonly protocol: Protocol;
  readonly number: number;
  /** All endpoints of the slice. */
  readonly endpoints: readonly Endpoint[];
}

/** The ports of a Service's slices, by their names; each list in the order of the slices' keys. */
export type SlicePorts = ReadonlyMap<string, readonly SlicePort[]>;

/** The endpoints of a Service's port in one family. */
export interface PortEndpoints {
  /** Endpoints that new connections may be sent to, if need be only for lack of better ones (TERM-01). */
  readonly usable: readonly PortEndpoint[];
  /** Addresses that no machine can have (NOSEL-06), as often as they are named. */
  readonly ignored: readonly Address[];
}

/** Addresses that no host on a network has. */
const SPECIAL_OF: Readonly<Record<Family, readonly Cidr[]>> = {
  4: [LOOPBACK[4], LINK_LOCAL[4], MULTICAST[4], UNSPECIFIED[4], BROADCAST],
  6: [LOOPBACK[6], LINK_LOCAL[6], MULTICAST[6], UNSPECIFIED[6]],
};

/** Returns whether an address can be neither an endpoint's nor a frontend's. */
export function isSpecial(address: Address): boolean {
  for (const cidr of SPECIAL_OF[familyOf(address)]) if (cidrContains(cidr, address)) return true;
  return false;
}

/**
 * Returns the ports of a Service in those slices that belong to it, whatever their order. It is called once for all
 * ports of the Service, as there may be thousands of both.
 */
export function slicePorts(slices: readonly EndpointSlice[], service: NameAndPorts): SlicePorts {
  const own = slices.filter((slice) => isSliceOf(slice, service));
  const wanted = new Set(service.ports.map(portText));
  const ports = new Map<string, SlicePort[]>();
  for (const slice of own.length < 2 ? own : own.sort((a, b) => (a.key < b.key ? -1 : 1))) {
    for (const port of slice.ports) {
      const { name, protocol, port: number } = port;
      if (number === undefined || !wanted.has(portText(port))) continue;
      const next = { protocol, number, endpoints: slice.endpoints };
      const known = ports.get(name);
      if (known === undefined) ports.set(name, [next]);
      else known.push(next);
    }
  }
  return ports;
}

type NameAndPorts = Pick<Service, "name" | "namespace" | "ports">;

function portText({ name, protocol }: Pick<ServicePort, "name" | "protocol">): string {
  return `${protocol} ${name}`;
}

/** Returns whether a slice is a Service's and ours to serve (EPS-07, EPS-14): its labels decide, not who manages it. */
function isSliceOf(slice: EndpointSlice, service: NameAndPorts): boolean {
  const isOurs = slice.proxyName === undefined && !slice.hasHeadlessLabel;
  return isOurs && slice.serviceName === service.name && slice.namespace === service.namespace;
}

/**
 * Returns the endpoints of a port in a family: a slice's port matches the Service's by name and protocol, and provides
 * the number (SVC-02, SVC-03). If several entries have the same address and port (EPS-08), a ready one counts, then the
 * one of the slice that sorts first; the endpoint is local if one of them says so.
 */
export function portEndpoints(
  ports: SlicePorts,
  port: Pick<ServicePort, "name" | "protocol">,
  family: Family,
  { nodeName }: CompileContext,
): PortEndpoints {
  const found = new Map<SocketKey, PortEndpoint>();
  const ignored: Address[] = [];
  for (const { protocol, number, endpoints } of ports.get(port.name) ?? NOWHERE) {
    // All endpoints of a slice are of one family.
    const first = endpoints[0];
    if (first === undefined || protocol !== port.protocol || familyOf(first.address) !== family) continue;
    for (const endpoint of endpoints) {
      // The endpoint is not destructured: that costs an iterator for each, and tens of thousands pass here.
      const address = endpoint.address;
      const state = stateOf(endpoint);
      if (isSpecial(address)) ignored.push(address);
      else if (state !== undefined) {
        const next = portEndpoint(endpoint, { address, port: number }, state, nodeName);
        const key = socketKey(next);
        found.set(key, merged(found.get(key), next));
      }
    }
  }
  return { usable: [...found.values()], ignored };
}

const NONE: readonly string[] = [];
const NOWHERE: readonly SlicePort[] = [];

/** Returns the state of an endpoint; undefined if new connections never go there. */
function stateOf({ isReady, isServing, isTerminating }: Endpoint): PortEndpoint["state"] | undefined {
  if (isReady) return "ready";
  return isServing && isTerminating ? "terminating" : undefined;
}

function portEndpoint(
  { nodeName, zoneHints = NONE, nodeHints = NONE }: Endpoint,
  { address, port }: SocketAddress,
  state: PortEndpoint["state"],
  thisNode: string,
): PortEndpoint {
  return { address, port, state, isLocal: nodeName === thisNode, zoneHints, nodeHints };
}

function merged(first: PortEndpoint | undefined, next: PortEndpoint): PortEndpoint {
  if (first === undefined) return next;
  const better = first.state !== "ready" && next.state === "ready" ? next : first;
  return { ...better, isLocal: first.isLocal || next.isLocal };
}

/** The endpoints that new connections may go to, by scope. */
export interface Selection {
  /** Endpoints anywhere in the cluster, narrowed by hints. */
  readonly all: readonly PortEndpoint[];
  /** Endpoints on this node. */
  readonly local: readonly PortEndpoint[];
}

/**
 * Returns the endpoints that are used, separately for the whole cluster and for this node: the ready ones, or if there
 * are none, those that still serve while they terminate (TERM-01, TERM-03). Hints only narrow the ready ones of the
 * whole cluster (HINT-05).
 */
export function select(usable: readonly PortEndpoint[], context: CompileContext): Selection {
  const ready = usable.filter(isReadyOne);
  const local = usable.filter(({ isLocal }) => isLocal);
  const readyLocal = local.filter(isReadyOne);
  return {
    all: ready.length > 0 ? narrowed(ready, context) : usable,
    local: readyLocal.length > 0 ? readyLocal : local,
  };
}

function isReadyOne({ state }: PortEndpoint): boolean {
  return state === "ready";
}

/**
 * Narrows ready endpoints by hints. Hints for nodes count if every ready endpoint has some and one names this node,
 * otherwise those for zones on the same terms; otherwise all endpoints are used (TD-01, HINT-02 to HINT-04).
 */
function narrowed(ready: readonly PortEndpoint[], { nodeName, zone }: CompileContext): readonly PortEndpoint[] {
  return hinted(ready, nodeHintsOf, nodeName) ?? hinted(ready, zoneHintsOf, zone) ?? ready;
}

function hinted(
  ready: readonly PortEndpoint[],
  hintsOf: (endpoint: PortEndpoint) => readonly string[],
  here: string | undefined,
): readonly PortEndpoint[] | undefined {
  if (here === undefined || !ready.every((endpoint) => hintsOf(endpoint).length > 0)) return undefined;
  const those = ready.filter((endpoint) => hintsOf(endpoint).includes(here));
  return those.length === 0 ? undefined : those;
}

function nodeHintsOf({ nodeHints }: PortEndpoint): readonly string[] {
  return nodeHints;
}

function zoneHintsOf({ zoneHints }: PortEndpoint): readonly string[] {
  return zoneHints;
}
