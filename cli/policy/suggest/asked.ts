import { familyOf } from "../../../kernel/ip/address.ts";
import { EVERY_ADDRESS } from "../../../kernel/ip/special.ts";
import { PROTOCOLS } from "../../../objects/protocol.ts";
import type { Pod, Protocol, Service } from "../../../objects/model.ts";
import type { Cluster } from "../../cluster/cluster.ts";
import type { ServiceObjects } from "../../cluster/service_objects.ts";
import { endpointsAt } from "../../ways_in/backend_pods.ts";
import { doorsOf, isReachedFromOutside } from "../../ways_in/doors.ts";
import type { WaysIn } from "../../ways_in/ways_in.ts";
import type { Connection } from "../live/connection.ts";
import { type OutsideRegion, outsideRegions } from "../outside_region.ts";

/** A connection that has to stay possible, seen or not, because an object asks for it. */
export interface AskedConnection {
  readonly connection: Connection;
  /** `Ingress shop/web, through IngressClass nginx`. */
  readonly by: string;
}

/** A port of a pod that an object opens. */
interface OpenPort {
  readonly pod: Pod;
  readonly protocol: Protocol;
  readonly port: number;
  readonly by: string;
}

/**
 * Returns connections that represent the ways into a namespace: from a controller's pods to the pods that its Ingresses
 * and routes lead to, and from outside to those of Services with node ports, a balancer or external addresses, and to
 * the controllers. A way between a pod that policies select and one without an address, in its node's network, is unknown.
 */
export function askedConnections(
  cluster: Cluster,
  services: ServiceObjects,
  { ways, unevaluated }: WaysIn,
  namespace: string,
): { readonly asked: readonly AskedConnection[]; readonly unknown: ReadonlySet<string> } {
  const isSubject = (pod: Pod): boolean => pod.namespace === namespace && !pod.hostNetwork;
  const onward = ways.flatMap(({ name, through, controllers, backends }) =>
    backends.flatMap((backend) => {
      const by = askingText(name, through);
      const pairs = backend.endpoints.flatMap((endpoint) => controllers.map((from) => ({ from, ...endpoint, by })));
      return pairs.filter(({ from, pod }) => isSubject(from) || isSubject(pod));
    }),
  );
  const unknown = onward.flatMap(({ from, pod, by }) =>
    [from, pod]
      .filter(({ addresses }) => addresses.length === 0)
      .map(({ key }) => `${by}: the address of ${key}, in its node's network, is not in the input`),
  );
  const groups = Map.groupBy(
    ways.filter(({ controllers }) => controllers.some((pod) => pod.namespace === namespace)),
    ({ through }) => through,
  );
  const fromOutside = [
    ...ofServices(services, cluster),
    ...[...groups].flatMap(([through, [way]]) => doors(cluster, services, way?.controllers ?? [], through)),
    ...unevaluated.flatMap(({ name, through = "", backends, isFromOutside }) =>
      isFromOutside
        ? backends
            .flatMap(({ endpoints }) => endpoints)
            .map(({ pod, port }): OpenPort => ({ pod, protocol: "TCP", port, by: askingText(name, through) }))
        : [],
    ),
  ].filter(({ pod }) => pod.namespace === namespace);
  const regions = fromOutside.length === 0 ? [] : outsideRegions([cluster.index]);
  const asked = [
    ...onward.flatMap(({ from, ...to }) => between(from, { ...to, protocol: "TCP" })),
    ...fromOutside.flatMap((open) => fromRegions(regions, open)),
  ];
  return { asked, unknown: new Set(unknown) };
}

function askingText(name: string, through: string): string {
  return `${name}, through ${through}`;
}

/** Returns the ports at which a controller's pods are reached from outside. */
function doors(
  cluster: Cluster,
  services: ServiceObjects,
  controllers: readonly Pod[],
  by: string,
): readonly OpenPort[] {
  const { ports } = doorsOf(cluster, services, controllers);
  return controllers.flatMap((pod) =>
    (ports.get(pod.key) ?? []).map((port): OpenPort => ({ pod, protocol: "TCP", port, by })),
  );
}

/** Returns the ports of pods to which Services lead from outside. */
function ofServices({ services, endpointSlices }: ServiceObjects, cluster: Cluster): readonly OpenPort[] {
  return [...services.values()].filter(isReachedFromOutside).flatMap((service) =>
    PROTOCOLS.flatMap((protocol) => {
      const names = service.ports.flatMap((port) => (port.protocol === protocol ? [port.name] : []));
      const endpoints =
        names.length === 0 ? [] : endpointsAt(cluster, service, endpointSlices, new Set(names), protocol);
      return endpoints.map(({ pod, port }): OpenPort => ({ pod, protocol, port, by: serviceText(service) }));
    }),
  );
}

function serviceText({ key, type }: Service): string {
  return `Service ${key} (${type === "NodePort" || type === "LoadBalancer" ? type : "external addresses"})`;
}

function between(from: Pod, { pod, protocol, port, by }: OpenPort): readonly AskedConnection[] {
  return pod.addresses.flatMap((destination) =>
    from.addresses
      .filter((source) => familyOf(source) === familyOf(destination) && source !== destination)
      .map((source) => ({
        by,
        connection: { protocol, source, sourcePort: undefined, asked: destination, askedPort: port, destination, port },
      })),
  );
}

/** Returns a connection from each part of the outside that policies distinguish. All of them stand for every address. */
function fromRegions(
  regions: readonly OutsideRegion[],
  { pod, protocol, port, by }: OpenPort,
): readonly AskedConnection[] {
  return pod.addresses.flatMap((destination) =>
    regions
      .filter(({ family }) => family === familyOf(destination))
      .map(({ representative: source, family }) => {
        const ends = { source, sourcePort: undefined, asked: destination, askedPort: port, destination, port };
        return { by, connection: { protocol, ...ends, outside: EVERY_ADDRESS[family] } };
      }),
  );
}
