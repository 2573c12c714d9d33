import { type Address, FAMILIES } from "../../../kernel/ip/address.ts";
import { type KubernetesObject, serviceObjects, type ServicePort } from "../services/manifest.ts";
import { type Pair, textsOf } from "../services/traffic_lab.ts";

/** A Service with its endpoints, from which the daemon's objects and the DNS server's names are made. */
export interface ClusterService {
  readonly namespace: string;
  readonly name: string;
  /** Undefined for a headless Service. */
  readonly clusterIps: Pair | undefined;
  readonly ports: readonly (ServicePort & { readonly name: string })[];
  readonly endpoints: readonly NamedEndpoint[];
  /** Further fields of the Service's spec. */
  readonly spec?: Readonly<Record<string, unknown>>;
  readonly status?: Readonly<Record<string, unknown>>;
}

/** A pod that answers for a Service. */
export interface NamedEndpoint {
  /** The pod's name, and its host name in a headless Service. */
  readonly name: string;
  readonly nodeName: string;
  readonly addresses: Pair;
}

/** Returns the Service and a slice of each family, as a control plane writes them. */
export function objectsOf(service: ClusterService): readonly KubernetesObject[] {
  const { namespace, name, clusterIps, ports, endpoints, spec, status } = service;
  const ready = { ready: true, serving: true, terminating: false };
  return serviceObjects(
    `${namespace}/${name}`,
    clusterIps === undefined ? ["None"] : textsOf(clusterIps),
    ports,
    endpoints.map((one) => ({
      addresses: one.addresses,
      nodeName: one.nodeName,
      hostname: one.name,
      conditions: ready,
    })),
    { ipFamilies: ["IPv4", "IPv6"], selector: { app: name }, ...spec, status },
  );
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
