import type { Pod, Service } from "../../objects/model.ts";
import type { Cluster } from "../cluster/cluster.ts";
import type { ServiceObjects } from "../cluster/service_objects.ts";
import { endpointsAt } from "./backend_pods.ts";

/** Where a controller's pods are reached from outside. */
export interface Doors {
  /** The Services that lead to them from outside, each with its ports that do. */
  readonly services: readonly { readonly service: Service; readonly ports: readonly number[] }[];
  /** The TCP ports at which each pod, by its key, is reached; an empty list stands for all ports. */
  readonly ports: ReadonlyMap<string, readonly number[]>;
}

/**
 * Returns the ports at which a controller's pods are reached from outside: those of Services with node ports, a load
 * balancer or external addresses, and host ports; where files have neither, those of the pods' containers.
 */
export function doorsOf(
  cluster: Cluster,
  { services, endpointSlices }: ServiceObjects,
  controllers: readonly Pod[],
): Doors {
  const keys = new Set(controllers.map(({ key }) => key));
  const ports = new Map<string, Set<number>>(controllers.map(({ key }) => [key, new Set(hostPortsOf(cluster, key))]));
  const leading: Doors["services"][number][] = [];
  for (const service of services.values()) {
    if (!isReachedFromOutside(service)) continue;
    const own = service.ports.filter(({ protocol }) => protocol === "TCP");
    const found = own.filter((port) => {
      const endpoints = endpointsAt(cluster, service, endpointSlices, new Set([port.name]));
      for (const endpoint of endpoints) ports.get(endpoint.pod.key)?.add(endpoint.port);
      return endpoints.some(({ pod }) => keys.has(pod.key));
    });
    if (found.length > 0) leading.push({ service, ports: found.map(({ port }) => port) });
  }
  return {
    services: leading,
    ports: new Map(
      controllers.map((pod) => {
        const known = [...(ports.get(pod.key) ?? [])];
        return [pod.key, known.length > 0 ? known : ownPorts(pod)];
      }),
    ),
  };
}

/** Returns whether a Service has node ports, a balancer or external addresses. */
export function isReachedFromOutside({ type, externalIps }: Service): boolean {
  return type === "NodePort" || type === "LoadBalancer" || externalIps.length > 0;
}

function ownPorts({ ports }: Pod): readonly number[] {
  return ports.flatMap(({ protocol, port }) => (protocol === "TCP" ? [port] : []));
}

function hostPortsOf({ manifests }: Cluster, key: string): readonly number[] {
  const hostPorts = manifests.get(`Pod ${key}`)?.hostPorts ?? [];
  return hostPorts.flatMap(({ protocol, containerPort }) => (protocol === "TCP" ? [containerPort] : []));
}
