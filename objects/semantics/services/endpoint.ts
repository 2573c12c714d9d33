import type { Family } from "../../../kernel/ip/address.ts";
import type { Endpoint, EndpointSlice, Service, ServicePort } from "../../model.ts";
import { specialClass } from "./address_class.ts";
import type { SocketAddress } from "./packet.ts";
import type { IgnoredSlice, Omitted, OmittedReason } from "./verdict.ts";
import type { ServiceWorld } from "./world.ts";

/** An endpoint of one port of a Service. */
export interface PortEndpoint {
  readonly socket: SocketAddress;
  readonly slice: string;
  readonly endpoint: Endpoint;
  readonly usability: Usability;
  readonly isLocal: boolean;
}

/** Whether new connections may go to an endpoint: always, only if none is ready, or never (EPS-04, TERM-01). */
export type Usability = "ready" | "terminating" | "unusable";

/** The endpoints of a port whose addresses packets can be sent to, and what else its slices contain. */
export interface PortEndpoints {
  readonly endpoints: readonly PortEndpoint[];
  readonly omitted: readonly Omitted[];
  readonly ignoredSlices: readonly IgnoredSlice[];
}

const ORDER: readonly Usability[] = ["ready", "terminating", "unusable"];

/**
 * Returns the endpoints of a Service's port in one family, each once (EPS-01, EPS-08). If several entries have the same
 * address and port, the most usable one counts, then the one of the slice that sorts first. The endpoint is local if a
 * usable entry says so: the entries are one pod, and slices that users write need not name its node.
 */
export function endpointsOf(world: ServiceWorld, service: Service, port: ServicePort, family: Family): PortEndpoints {
  const ignoredSlices: IgnoredSlice[] = [];
  const all: PortEndpoint[] = [];
  const slices = world.endpointSlices
    .filter(({ namespace, serviceName }) => namespace === service.namespace && serviceName === service.name)
    .toSorted((a, b) => (a.key < b.key ? -1 : 1));
  for (const slice of slices) {
    const numbers = portNumbers(slice, port);
    const because = ignoredBecause(slice, family) ?? (numbers.length === 0 ? "no such port" : undefined);
    if (because !== undefined) ignoredSlices.push({ slice: slice.key, because });
    else all.push(...numbers.flatMap((number) => entriesOf(world, slice, number)));
  }
  const omitted: Omitted[] = [];
  const best = new Map<string, PortEndpoint>();
  for (const entry of all.toSorted((a, b) => ORDER.indexOf(a.usability) - ORDER.indexOf(b.usability))) {
    const special = specialClass(entry.socket.address);
    const key = `${entry.socket.address} ${entry.socket.port}`;
    const known = best.get(key);
    if (special !== undefined) omitted.push(omit(entry, `${special} address`));
    else if (known === undefined) best.set(key, entry);
    else {
      omitted.push(omit(entry, "same endpoint in another slice"));
      if (entry.isLocal && entry.usability !== "unusable") best.set(key, { ...known, isLocal: true });
    }
  }
  return { endpoints: [...best.values()], omitted, ignoredSlices };
}

/** Returns an endpoint with the reason why it is not a candidate. */
export function omit({ socket, slice }: PortEndpoint, because: OmittedReason): Omitted {
  return { endpoint: socket, slice, because };
}

function ignoredBecause(slice: EndpointSlice, family: Family): IgnoredSlice["because"] | undefined {
  if (slice.proxyName !== undefined) return "another proxy";
  if (slice.hasHeadlessLabel) return "headless label";
  if (slice.addressType === "FQDN") return "names, not addresses";
  return slice.addressType === `IPv${family}` ? undefined : "other family";
}

/** Returns a slice's numbers for a port of the Service: by name and protocol, never by targetPort (SVC-02). */
function portNumbers({ ports }: EndpointSlice, { name, protocol }: ServicePort): readonly number[] {
  return ports
    .filter((port) => port.name === name && port.protocol === protocol)
    .flatMap(({ port }) => (port === undefined ? [] : [port]));
}

function entriesOf({ nodeName }: ServiceWorld, slice: EndpointSlice, port: number): readonly PortEndpoint[] {
  return slice.endpoints.map((endpoint) => ({
    socket: { address: endpoint.address, port },
    slice: slice.key,
    endpoint,
    usability: usabilityOf(endpoint),
    isLocal: endpoint.nodeName === nodeName,
  }));
}

function usabilityOf({ isReady, isServing, isTerminating }: Endpoint): Usability {
  if (isReady) return "ready";
  return isServing && isTerminating ? "terminating" : "unusable";
}
