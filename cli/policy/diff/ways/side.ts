import type { Pod } from "../../../../objects/model.ts";
import { isFinished } from "../../../../objects/semantics/policies/address_owner.ts";
import type { PolicyOptions } from "../../../../objects/semantics/policies/objects.ts";
import type { PolicyIndex } from "../../../../objects/semantics/policies/policy_index.ts";
import { clusterOf } from "../../../cluster/cluster.ts";
import { serviceObjects } from "../../../cluster/service_objects.ts";
import type { Manifest } from "../../../input/manifests.ts";
import type { EndpointOf } from "../../../ways_in/backend_pods.ts";
import { type GivenController, givenControllers } from "../../../ways_in/controller_option.ts";
import { type PlacedWayObject, wayObjectName } from "../../../input/ways/way_object.ts";
import { type UnevaluatedWay, waysInto } from "../../../ways_in/ways_in.ts";
import { NOTHING, ofPorts } from "../../connections/connection_set.ts";
import { type Connections, PodConnections } from "../../connections/pod_connections.ts";
import type { OutsideRegion } from "../../outside_region.ts";
import { OutsideConnections, regionsFor } from "../../matrix/outside.ts";
import type { Sides } from "../end_class.ts";
import { connectionsIn, type WayInGroup, wayInEnds } from "../../matrix/way_in_end.ts";

/** The objects of one side by which connections come in, and those that policies are about. */
export interface WayObjects {
  readonly wayObjects: readonly PlacedWayObject[];
  readonly manifests: readonly Manifest[];
  readonly index: PolicyIndex;
  readonly options: Partial<PolicyOptions>;
  /** The controllers' pods that the command line names. */
  readonly given: readonly GivenController[];
}

/** The ways into a cluster on one side of a comparison. */
export interface WaySide {
  readonly index: PolicyIndex;
  /** Names of the objects that are there: `Ingress shop/web`. */
  readonly objects: ReadonlySet<string>;
  readonly evaluated: readonly EvaluatedRequests[];
  readonly unevaluated: readonly UnevaluatedRequests[];
  /** Why some ways are not evaluated, a line each. */
  readonly doubts: readonly string[];
}

/** Both sides of a comparison. */
export interface WaySides {
  readonly before: WaySide;
  readonly after: WaySide;
}

/** The requests that one object forwards to one port of a Service. */
export interface WayRequests {
  /** `Ingress shop/web`. */
  readonly name: string;
  /** `IngressClass nginx`; undefined where the reason why the way is not evaluated does not depend on it. */
  readonly through: string | undefined;
  /** `shop/web`. */
  readonly service: string;
  readonly port: number | string | undefined;
  /** Texts such as `shop.example/cart`. */
  readonly requests: ReadonlySet<string>;
  readonly endpoints: readonly EndpointOf[];
  readonly file: string;
  readonly line: number;
}

/** Requests that come in through the pods of a controller. */
export interface EvaluatedRequests extends WayRequests {
  readonly group: WayInGroup;
  /** The parts of the outside that policies distinguish. */
  readonly regions: readonly OutsideRegion[];
  readonly open: Connections;
}

/** Requests whose way is not evaluated. */
export interface UnevaluatedRequests extends WayRequests {
  readonly why: string;
}

/** Returns the ways of one side, with what policies let in by each. */
export function waySideOf({ wayObjects, manifests, index, options, given }: WayObjects): WaySide {
  const objects = new Set(wayObjects.map(({ object }) => wayObjectName(object)));
  // Other indexes are built only if there is a way in at all.
  if (wayObjects.length === 0) return { index, objects, evaluated: [], unevaluated: [], doubts: [] };
  const cluster = clusterOf(manifests, options);
  const services = serviceObjects(cluster);
  const { ways, unevaluated, doubts } = waysInto(wayObjects, cluster, services, given);
  const groups = wayInEnds(ways, cluster, services).flatMap(({ wayIn }) => wayIn ?? []);
  const connections = new PodConnections(index);
  const reached = new OutsideConnections(connections, "from outside");
  const evaluated = groups.flatMap((group): readonly EvaluatedRequests[] => {
    const regions = regionsFor(index, group.controllers);
    return group.ways.flatMap((way) =>
      requestsOf(way).map((one): EvaluatedRequests => {
        const ownGroup = { ...group, ways: [way], controllers: way.controllers, ports: portsOf(one.endpoints) };
        const found = connectionsIn(ownGroup, serversOf(one), connections, { regions, reached });
        return { ...one, group: ownGroup, regions, open: found ?? { some: NOTHING, every: NOTHING } };
      }),
    );
  });
  return {
    index,
    objects,
    evaluated,
    unevaluated: unevaluated.flatMap((way) => requestsOf(way).map((one) => ({ ...one, why: way.why }))),
    doubts,
  };
}

/** Reads the option about controllers, whose pods may be on one side only. @throws DrawbridgeError as givenControllers */
export function givenOnSides(texts: readonly string[], { before, after }: Sides): readonly GivenController[] {
  const pods = [before, after].flatMap((index) => [...index.pods.values()].map(({ pod }) => pod));
  const running = pods.filter((pod) => !isFinished(pod));
  return givenControllers(texts, running);
}

/** Returns the requests of a way for each port of a Service: several paths may lead to one. */
function requestsOf({
  name,
  through,
  placed,
  backends,
}: Pick<UnevaluatedWay, "name" | "through" | "placed" | "backends">): readonly WayRequests[] {
  const byPort = Map.groupBy(backends, ({ namespace, service, port }) => `${namespace}/${service}:${port ?? ""}`);
  return [...byPort.values()].flatMap((same): readonly WayRequests[] => {
    const [first] = same;
    if (first === undefined) return [];
    const { namespace, service, port, endpoints, path } = first;
    const requests = new Set(same.flatMap((one) => one.requests));
    const place = { file: placed.file, line: placed.lineOf(path) };
    return [{ name, through, service: `${namespace}/${service}`, port, requests, endpoints, ...place }];
  });
}

function portsOf(endpoints: readonly EndpointOf[]): WayInGroup["ports"] {
  const byPod = Map.groupBy(endpoints, ({ pod }) => pod.key);
  return new Map(
    [...byPod].map(([key, some]) => {
      const numbers = some.map(({ port }) => port).sort((a, b) => a - b);
      const ranges = [...new Set(numbers)].map((port) => ({ first: port, last: port }));
      return [key, ofPorts((protocol) => (protocol === "TCP" ? ranges : []), false)];
    }),
  );
}

/** Returns the pods that a controller has, and those that requests reach. */
export function podsOf({ group, endpoints }: EvaluatedRequests): {
  readonly controllers: readonly Pod[];
  readonly servers: readonly Pod[];
} {
  return { controllers: group.controllers, servers: serversOf({ endpoints }) };
}

function serversOf({ endpoints }: Pick<WayRequests, "endpoints">): readonly Pod[] {
  return [...new Map(endpoints.map(({ pod }) => [pod.key, pod])).values()];
}

/** Returns the side that a side is compared with. */
export function otherOf(side: keyof WaySides): keyof WaySides {
  return side === "before" ? "after" : "before";
}
