import type { Pod } from "../../../objects/model.ts";
import type { PolicyOptions } from "../../../objects/semantics/policies/objects.ts";
import type { PolicyIndex } from "../../../objects/semantics/policies/policy_index.ts";
import { shortList } from "../../../objects/printable.ts";
import { clusterOf } from "../../cluster/cluster.ts";
import { type Grouping, groupName } from "../../cluster/group.ts";
import { serviceObjects } from "../../cluster/service_objects.ts";
import { workloadText } from "../../../objects/workload_name.ts";
import type { Manifest } from "../../input/manifests.ts";
import type { PlacedWayObject } from "../../input/ways/way_object.ts";
import type { EndpointOf } from "../../ways_in/backend_pods.ts";
import { type GivenController, givenControllers, runningOf } from "../../ways_in/controller_option.ts";
import { type UnevaluatedWay, waysInto } from "../../ways_in/ways_in.ts";
import { connectionText, difference, intersection, isEmpty, NOTHING, union } from "../connections/connection_set.ts";
import { type Connections, PodConnections } from "../connections/pod_connections.ts";
import { OutsideConnections, regionsFor } from "../matrix/outside.ts";
import { connectionsIn, portsOf, wayInEnds } from "../matrix/way_in_end.ts";
import type { Sides } from "./end_class.ts";
import { type ChangeType, EFFECTS } from "./pair_change.ts";
import { placeText } from "../../input/locate.ts";
import type { InWords } from "./witness.ts";

/** The objects of one side by which connections come in, and those that policies are about. */
interface WayObjects {
  readonly wayObjects: readonly PlacedWayObject[];
  readonly manifests: readonly Manifest[];
  readonly index: PolicyIndex;
  readonly options: Partial<PolicyOptions>;
  /** The controllers' pods that the command line names. */
  readonly given: readonly GivenController[];
}

/** The way by which one object leads connections from outside to one port of a Service. */
interface Way {
  /** `Ingress shop/web`. */
  readonly name: string;
  /** `IngressClass nginx`; undefined where the reason why the way is not judged does not depend on it. */
  readonly through: string | undefined;
  /** `Service`, or the kind of another object that is not judged. */
  readonly kind: string;
  /** `shop/web`. */
  readonly service: string;
  readonly port: number | string | undefined;
  readonly file: string;
  readonly line: number;
  /** The pods of the Service by their workloads; empty where they are not known. */
  readonly to: ReadonlyMap<string, WayEnd>;
  /** Why it is not judged. */
  readonly why: string | undefined;
}

/** The pods of one workload to which a way leads. */
interface WayEnd {
  readonly pods: readonly Pod[];
  /** The connections that policies let in; nothing where the way is not judged. */
  readonly open: Connections;
}

/** The ways of one side. */
export interface WaySide {
  readonly ways: readonly Way[];
  /** Why some are not judged, a line each. */
  readonly doubts: readonly string[];
}

/** Returns the ways of one side, with what policies let in by each. */
export function waySideOf({ wayObjects, manifests, index, options, given }: WayObjects): WaySide {
  // Other indexes are built only if there is a way in at all.
  if (wayObjects.length === 0) return { ways: [], doubts: [] };
  const cluster = clusterOf(manifests, options);
  const services = serviceObjects(cluster);
  const { ways, unevaluated, doubts } = waysInto(wayObjects, cluster, services, given);
  const groups = new Map(
    wayInEnds(ways, cluster, services).flatMap(({ wayIn }) => wayIn?.ways.map((way) => [way, wayIn] as const) ?? []),
  );
  const connections = new PodConnections(index);
  const reached = new OutsideConnections(connections, "from outside");
  const judged = ways.flatMap((way) => {
    const group = groups.get(way);
    if (group === undefined) return [];
    const outside = { regions: regionsFor(index, group.controllers), reached };
    return ofServices(way, undefined, (endpoints) => {
      const own = { ...group, controllers: way.controllers, ports: portsOf(endpoints) };
      const pods = new Map(endpoints.map(({ pod }) => [pod.key, pod]));
      return connectionsIn(own, [...pods.values()], connections, outside) ?? CLOSED;
    });
  });
  const others = unevaluated.flatMap((way) => ofServices(way, way.why, () => CLOSED));
  // A route has a way for each listener of a Gateway that it names, of which one stands for all.
  const distinct = new Map([...others, ...judged].map((way) => [keyOf(way), way]));
  return { ways: [...distinct.values()], doubts };
}

const CLOSED: Connections = Object.freeze({ some: NOTHING, every: NOTHING });

/** Returns a way for each port of a Service: several paths may lead to one. */
function ofServices(
  { name, through, placed, backends }: Pick<UnevaluatedWay, "name" | "through" | "placed" | "backends">,
  why: string | undefined,
  openOf: (endpoints: readonly EndpointOf[]) => Connections,
): readonly Way[] {
  const byPort = Map.groupBy(backends, (one) => `${one.kind} ${one.namespace}/${one.service}:${one.port ?? ""}`);
  return [...byPort.values()].flatMap(([first]) => {
    if (first === undefined) return [];
    const { namespace, kind, service, port, endpoints, path } = first;
    const byWorkload = Map.groupBy(endpoints, ({ pod }) => workloadText(pod));
    const ends = [...byWorkload].map(([workload, some]): [string, WayEnd] => {
      return [workload, { pods: some.map(({ pod }) => pod), open: openOf(some) }];
    });
    const place = { file: placed.file, line: placed.lineOf(path) };
    return [{ name, through, kind, service: `${namespace}/${service}`, port, ...place, to: new Map(ends), why }];
  });
}

/** Reads the option about controllers, whose pods may be on one side only. @throws DrawbridgeError as givenControllers */
export function givenOnSides(texts: readonly string[], { before, after }: Sides): readonly GivenController[] {
  const pods = [before, after].flatMap((index) => [...index.pods.values()].map(({ pod }) => pod));
  return givenControllers(texts, runningOf(pods));
}

/** A way in that opens or closes, or that one side has and nobody can judge. */
export interface WayChange extends Omit<Way, "to"> {
  readonly type: ChangeType;
  /** The groups of pods to which it differs; empty where they are not known. */
  readonly to: readonly string[];
  /** The pods of these groups to which it differs. */
  readonly pods: readonly Pod[];
  /** Such as `8080/TCP`; empty where the way is not judged. */
  readonly connections: string;
  /** Whether it is open in some cases and not in others, on the side on which it is more open. */
  readonly isPartly: boolean;
}

/** Returns the ways in that differ between two sides, by their names. */
export function wayChanges({ ways: before }: WaySide, { ways: after }: WaySide, by: Grouping): readonly WayChange[] {
  const pairs = before.flatMap((old): readonly (readonly [Way | undefined, Way | undefined])[] => {
    const same = after.filter((one) => isSame(one, old));
    return same.length === 0 ? [[old, undefined]] : same.map((one) => [old, one]);
  });
  const young = after.filter((one) => !before.some((old) => isSame(one, old)));
  const changes = [...pairs, ...young.map((one) => [undefined, one] as const)].flatMap(([a, b]) => changesOf(a, b, by));
  return changes.sort((a, b) => (orderOf(a) < orderOf(b) ? -1 : 1));
}

/** Returns whether two ways lead by one object to one port, and by one class or Gateway where both are known. */
function isSame(one: Way, other: Way): boolean {
  const isThrough = one.through === undefined || other.through === undefined || one.through === other.through;
  const isSameService = one.kind === other.kind && one.service === other.service && one.port === other.port;
  return isThrough && one.name === other.name && isSameService;
}

function orderOf(change: WayChange): string {
  return `${keyOf(change)}\n${change.type}\n${change.to.join()}`;
}

function keyOf({ name, through, kind, service, port }: Omit<Way, "to">): string {
  return [name, through ?? "", kind, service, port ?? ""].join("\n");
}

/** Returns how a way differs, by the workloads it leads to; undefined stands for a side without it. */
function changesOf(before: Way | undefined, after: Way | undefined, by: Grouping): readonly WayChange[] {
  const sides = [
    { type: "removed", way: before, other: after },
    { type: "added", way: after, other: before },
  ] as const;
  // A side on which it is not judged may not say through whom it comes.
  const told = after?.why === undefined ? (after ?? before) : (before ?? after);
  const why = before?.why ?? after?.why;
  return sides.flatMap(({ type, way, other }): readonly WayChange[] => {
    if (way === undefined || told === undefined) return [];
    const ends = [...way.to].flatMap(([workload, { pods, open }]) => {
      const less = other?.to.get(workload)?.open;
      const lost = union(difference(open.some, (less ?? CLOSED).some), difference(open.every, (less ?? CLOSED).every));
      if (isEmpty(lost) && (way.why === undefined || less !== undefined)) return [];
      // A way that closes in some cases only is still open in others.
      const isClosing = type === "removed" && less !== undefined;
      const isPartly = !isEmpty(isClosing ? intersection(lost, less.some) : difference(lost, open.every));
      return [{ ...told, type, pods, connections: isEmpty(lost) ? "" : connectionText(lost), isPartly, why }];
    });
    const isUnknown = way.to.size === 0 && other === undefined;
    const all = isUnknown ? [{ ...told, type, pods: [], connections: "", isPartly: false, why }] : ends;
    const alike = Map.groupBy(all, ({ connections, isPartly }) => `${connections} ${isPartly}`);
    return [...alike.values()].flatMap((some) => {
      const pods = some.flatMap((one) => one.pods);
      const to = [...new Set(pods.map((pod) => groupName(pod, by)))].sort();
      return some.slice(0, 1).map((one) => ({ ...one, pods, to }));
    });
  });
}

/** The most names of a list that are shown to people. */
const MOST_NAMES = 8;

/** Returns a way in words: its object with file and line, and what opens or closes by it. */
export function wayInWords(way: WayChange): InWords {
  const { type, name, file, line, through, kind, service, port, connections, isPartly, why } = way;
  const serviceText = `${kind} ${service}${port === undefined ? "" : ` port ${port}`}`;
  const to = way.to.length > 0 ? way.to : [serviceText];
  // Nothing is opened or closed by a way that is not judged.
  const isOpen = connections !== "";
  const effect = isOpen ? `${connections.replaceAll(",", ", ")}${isPartly ? " (some)" : ""}` : "not judged";
  return {
    type,
    word: isOpen ? EFFECTS[type] : type,
    head: `way in by ${placeText({ name, file, line })} -> ${shortList(to, MOST_NAMES)}: ${effect}`,
    lines: [`through ${through ?? "its class or Gateway"} to ${serviceText}`, ...(why === undefined ? [] : [why])],
    from: [`outside through ${through ?? name}`],
    to,
    connections: effect,
    label: isOpen ? `${effect} by ${name}` : undefined,
  };
}

/** Returns the object that docs/cli.md describes. */
export function wayObject({ type, name, through, kind, service, port, file, line, to, ...change }: WayChange): object {
  const { connections, isPartly, why } = change;
  return {
    change: type,
    name,
    service: kind === "Service" ? service : null,
    file,
    line,
    to,
    through: through ?? null,
    port: port ?? null,
    connections: connections === "" ? [] : connections.split(","),
    partly: isPartly,
    ...(why === undefined ? {} : { notJudged: why }),
  };
}
