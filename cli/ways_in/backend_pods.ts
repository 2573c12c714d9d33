import type { EndpointSlice, Pod, Protocol, Service } from "../../objects/model.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { hostAt } from "../cluster/find_end.ts";
import type { ServiceObjects } from "../cluster/service_objects.ts";
import type { Backend } from "../input/ways/way_object.ts";

/** A pod that serves a Service, with the port that it listens on. */
export interface EndpointOf {
  readonly pod: Pod;
  readonly port: number;
}

/** Returns the pods that serve a port of a Service, or the reason why there are none. */
export function endpointsOf(
  cluster: Cluster,
  { services, endpointSlices }: ServiceObjects,
  { namespace, service: name, port }: Backend,
): readonly EndpointOf[] | string {
  const service = services.get(`${namespace}/${name}`);
  if (service === undefined) return `the Service ${namespace}/${name} was not read`;
  if (service.type === "ExternalName") return `the Service ${service.key} is a name outside of the cluster`;
  const ports = service.ports.filter((one) => port === undefined || one.port === port || one.name === port);
  if (ports.length === 0) return `the Service ${service.key} has no port ${port}`;
  const found = endpointsAt(cluster, service, endpointSlices, new Set(ports.map((one) => one.name)));
  return found.length > 0 ? found : `the Service ${service.key} has no endpoint among the pods that were read`;
}

/** Returns the pods that serve some ports of a Service, given by name, in one protocol. */
export function endpointsAt(
  cluster: Cluster,
  { namespace, name }: Service,
  slices: readonly EndpointSlice[],
  portNames: ReadonlySet<string>,
  protocol: Protocol = "TCP",
): readonly EndpointOf[] {
  const found = new Map<string, EndpointOf>();
  for (const slice of slices) {
    if (slice.namespace !== namespace || slice.serviceName !== name) continue;
    const ports = slice.ports.filter((one) => one.protocol === protocol && portNames.has(one.name));
    for (const { address, podKey } of slice.endpoints) {
      const host = hostAt(cluster, address);
      const pod = host.type === "pod" ? host.pod : cluster.store.pods.get(podKey ?? "");
      if (pod === undefined) continue;
      for (const { port } of ports) if (port !== undefined) found.set(`${pod.key} ${port}`, { pod, port });
    }
  }
  return [...found.values()];
}
