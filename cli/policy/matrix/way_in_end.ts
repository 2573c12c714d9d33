import type { Pod } from "../../../objects/model.ts";
import { type Cluster, clusterOf } from "../../cluster/cluster.ts";
import { type ServiceObjects, serviceObjects } from "../../cluster/service_objects.ts";
import type { EndpointOf } from "../../ways_in/backend_pods.ts";
import { type Doors, doorsOf } from "../../ways_in/doors.ts";
import { tellUnjudged, type WayIn, waysInto } from "../../ways_in/ways_in.ts";
import {
  type ConnectionSet,
  EVERYTHING,
  intersection,
  isEmpty,
  NOTHING,
  ofPorts,
} from "../connections/connection_set.ts";
import type { Connections, PodConnections } from "../connections/pod_connections.ts";
import type { Io } from "../../io.ts";
import type { PolicyInput } from "../policy_input.ts";
import type { OutsideRegion } from "../outside_region.ts";
import { representativePods } from "./representative_pods.ts";
import { type MatrixEnd, OUTSIDE } from "./end.ts";
import type { OutsideConnections } from "./outside.ts";

/** The outside as it comes in through the pods of one controller. */
export interface WayInGroup {
  readonly ways: readonly WayIn[];
  readonly controllers: readonly Pod[];
  readonly doors: Doors;
  /** The ports of pods to which requests are forwarded, by the pods' keys. */
  readonly ports: ReadonlyMap<string, ConnectionSet>;
}

/** Returns the rows of the outside through controllers, and prints why some ways are not evaluated. */
export function wayInRows(io: Io, { manifests, wayObjects, options, given }: PolicyInput): readonly MatrixEnd[] {
  // A second index is built only if there is a way in at all.
  if (wayObjects.length === 0) return [];
  const cluster = clusterOf(manifests, options);
  const services = serviceObjects(cluster);
  const { ways, doubts } = waysInto(wayObjects, cluster, services, given);
  tellUnjudged(io, doubts);
  return wayInEnds(ways, cluster, services);
}

/** Returns a row for each class and Gateway by which connections come in: `outside through IngressClass nginx`. */
export function wayInEnds(ways: readonly WayIn[], cluster: Cluster, services: ServiceObjects): readonly MatrixEnd[] {
  const groups = [...Map.groupBy(ways, ({ through }) => through)].sort(([a], [b]) => (a < b ? -1 : 1));
  return groups.map(([through, own]): MatrixEnd => {
    const controllers = [...new Map(own.flatMap((way) => way.controllers.map((pod) => [pod.key, pod]))).values()];
    const ports = portsOf(own.flatMap(({ backends }) => backends.flatMap(({ endpoints }) => endpoints)));
    const wayIn = { ways: own, controllers, doors: doorsOf(cluster, services, controllers), ports };
    return { name: `${OUTSIDE} through ${through}`, kind: "way in", pods: [], regions: [], wayIn };
  });
}

/** Returns the ports of pods to which requests are forwarded, by the pods' keys. */
export function portsOf(endpoints: readonly EndpointOf[]): WayInGroup["ports"] {
  const byPod = Map.groupBy(endpoints, ({ pod }) => pod.key);
  return new Map([...byPod].map(([key, some]) => [key, tcp([...new Set(some.map(({ port }) => port))])]));
}

/**
 * Returns the connections that come in by a way to some pods: nothing where the outside may not reach its controller;
 * otherwise what the controller's pods may send to the ports to which requests are forwarded.
 */
export function connectionsIn(
  { controllers, doors, ports }: WayInGroup,
  destinations: readonly Pod[],
  connections: PodConnections,
  outside: { readonly regions: readonly OutsideRegion[]; readonly reached: OutsideConnections },
): Connections | undefined {
  const { pods } = connections.pairs;
  const nothing = connections.limited(undefined, NOTHING);
  const cases: (Connections | undefined)[] = [];
  for (const controller of controllers) {
    const source = pods.get(controller.key);
    if (source === undefined) continue;
    const doorPorts = tcp(doors.ports.get(controller.key) ?? []);
    const entry = connections.together(
      outside.regions.flatMap((region) => {
        const entering = outside.reached.with(region, representativePods([source]));
        return entering === undefined ? [] : [connections.limited(entering, doorPorts)];
      }),
    );
    const isEverOpen = entry !== undefined && !isEmpty(entry.some);
    const isAlwaysOpen = entry !== undefined && !isEmpty(entry.every);
    for (const { key } of destinations) {
      const destination = pods.get(key);
      const own = ports.get(key);
      if (destination === undefined || own === undefined || !isEverOpen) cases.push(nothing);
      else {
        const sent = connections.limited(connections.ofPair(source, destination), own);
        cases.push(isAlwaysOpen ? sent : connections.sometimes(sent));
      }
    }
  }
  return connections.together(cases);
}

/** Returns some TCP ports; all of them for an empty list. */
function tcp(numbers: readonly number[]): ConnectionSet {
  const sorted = numbers.toSorted((a, b) => a - b);
  if (sorted.length === 0) return ALL_TCP;
  return ofPorts((protocol) => (protocol === "TCP" ? sorted.map((port) => ({ first: port, last: port })) : []), false);
}

const ALL_TCP = intersection(
  EVERYTHING,
  ofPorts((protocol) => (protocol === "TCP" ? EVERYTHING.ports.TCP : []), false),
);
