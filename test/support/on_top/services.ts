import { type Address, formatAddress, FAMILIES } from "../../../kernel/ip/address.ts";
import type { Pair } from "../services/traffic_lab.ts";

/** An object as a cluster stores it. */
export interface KubernetesObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string } & Readonly<Record<string, unknown>>;
  readonly [field: string]: unknown;
}

/** A port of a Service; `targetPort` is a number, as it stands in its slices. */
export interface ServicePort {
  readonly name: string;
  readonly protocol: "TCP" | "UDP";
  readonly port: number;
  readonly targetPort: number;
  readonly nodePort?: number;
}

/** A Service with its endpoints, from which the daemon's objects and the DNS server's names are made. */
export interface ClusterService {
  readonly namespace: string;
  readonly name: string;
  /** Undefined for a headless Service. */
  readonly clusterIps: Pair | undefined;
  readonly ports: readonly ServicePort[];
  readonly endpoints: readonly ServiceEndpoint[];
  /** Further fields of the Service's spec. */
  readonly spec?: Readonly<Record<string, unknown>>;
  readonly status?: Readonly<Record<string, unknown>>;
}

/** A pod that answers for a Service. */
export interface ServiceEndpoint {
  /** The pod's name, and its host name in a headless Service. */
  readonly name: string;
  readonly nodeName: string;
  readonly addresses: Pair;
}

/** Returns the Service and a slice of each family, as a control plane writes them. */
export function objectsOf(service: ClusterService): readonly KubernetesObject[] {
  const { namespace, name, clusterIps, ports, endpoints } = service;
  const clusterIpTexts =
    clusterIps === undefined ? ["None"] : FAMILIES.map((family) => formatAddress(clusterIps[family]));
  const slices = FAMILIES.map((family) => ({
    apiVersion: "discovery.k8s.io/v1",
    kind: "EndpointSlice",
    metadata: { namespace, name: `${name}-ipv${family}`, labels: { "kubernetes.io/service-name": name } },
    addressType: `IPv${family}`,
    ports: ports.map((port) => ({ name: port.name, protocol: port.protocol, port: port.targetPort })),
    endpoints: endpoints.map((endpoint) => ({
      addresses: [formatAddress(endpoint.addresses[family])],
      nodeName: endpoint.nodeName,
      hostname: endpoint.name,
      conditions: { ready: true, serving: true, terminating: false },
    })),
  }));
  const spec = {
    clusterIP: clusterIpTexts[0],
    clusterIPs: clusterIpTexts,
    ipFamilies: ["IPv4", "IPv6"],
    ports,
    selector: { app: name },
    ...service.spec,
  };
  const status = service.status === undefined ? {} : { status: service.status };
  return [{ apiVersion: "v1", kind: "Service", metadata: { namespace, name }, spec, ...status }, ...slices];
}

/** The content of a DNS server. */
export interface Zone {
  /** Names and their addresses, in both directions. */
  readonly hosts: readonly (readonly [Address, string])[];
  readonly services: readonly { readonly name: string; readonly target: string; readonly port: number }[];
}

const DOMAIN = "svc.cluster.local";

/**
 * Returns the answers of a cluster's DNS server for Services: addresses, and SRV of named ports (DNS-01, DNS-02,
 * DNS-03, DNS-05).
 */
export function zoneOf(services: readonly ClusterService[]): Zone {
  const zones = services.map(({ namespace, name, clusterIps, ports, endpoints }) => {
    const own = `${name}.${namespace}.${DOMAIN}`;
    const targets =
      clusterIps === undefined
        ? endpoints.map((endpoint) => ({ name: `${endpoint.name}.${own}`, addresses: endpoint.addresses }))
        : [{ name: own, addresses: clusterIps }];
    return {
      hosts: targets.flatMap((target) =>
        FAMILIES.flatMap((family) =>
          // A headless Service's address has the pod's own name first, which is the answer to a reverse query.
          [...new Set([target.name, own])].map((host) => [target.addresses[family], host] as const),
        ),
      ),
      services: ports.flatMap((port) =>
        targets.map((target) => ({
          name: `_${port.name}._${port.protocol.toLowerCase()}.${own}`,
          target: target.name,
          port: clusterIps === undefined ? port.targetPort : port.port,
        })),
      ),
    };
  });
  return { hosts: zones.flatMap(({ hosts }) => hosts), services: zones.flatMap((zone) => zone.services) };
}
