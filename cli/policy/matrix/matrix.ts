import type { NumberedPort } from "../../input/port_text.ts";
import type { PolicyIndex } from "../../../objects/semantics/policies/policy_index.ts";
import { type Grouping, groupsOf } from "../../cluster/group.ts";
import { includes } from "../connections/connection_set.ts";
import { type Connections, PodConnections } from "../connections/pod_connections.ts";
import { isOwn } from "../connections/pair_table.ts";
import type { Chosen } from "../../cluster/named_pods.ts";
import { type RepresentativePods, representativePods, forEachPair, onlyPod } from "./representative_pods.ts";
import type { OutsideRegion } from "../outside_region.ts";
import { domainNamesIn } from "../domain_names.ts";
import { domainNameEnd, type MatrixEnd, outsideEnd } from "./end.ts";
import { OutsideConnections, regionsFor } from "./outside.ts";
import { connectionsIn } from "./way_in_end.ts";

/** The matrix of who may send what to whom, considering only policies. */
export interface Matrix {
  /** The running pods. */
  readonly groups: readonly MatrixEnd[];
  /** The rows and the columns: the chosen pods, the outside and pods that do not exist yet. */
  readonly sources: readonly MatrixEnd[];
  readonly destinations: readonly MatrixEnd[];
  /** Returns the connections between two ends; undefined where no packet can be sent. */
  readonly between: (from: MatrixEnd, to: MatrixEnd) => Connections | undefined;
  /** Returns whether two ends are a pod and itself or its own node, where no NetworkPolicy applies. */
  readonly areOwn: (from: MatrixEnd, to: MatrixEnd) => boolean;
  /** Blocks of ends that policies do not distinguish: connections are equal for all pairs without {@link areOwn}. */
  readonly blocks: readonly Block[];
}

/** At least one end. */
export type Block = readonly [MatrixEnd, ...MatrixEnd[]];

/** The part of a matrix that is of interest. */
export interface Scope {
  /** Pods in the index that do not exist yet, by key, with their names. */
  readonly newPods?: ReadonlyMap<string, string>;
  /** Whether a pod is shown; pairs without any such pod are not. */
  readonly isShown?: Chosen;
  /** Rows for the outside as it comes in through controllers. */
  readonly waysIn?: readonly MatrixEnd[];
  /** The rows and the columns: some pods, the outside or new pods; undefined stands for all of them. */
  readonly from?: Chosen | "outside" | "new pod" | undefined;
  readonly to?: Scope["from"] | { readonly domainName: string };
}

/** The part of a matrix that is printed. */
export interface Asked {
  readonly ports: readonly NumberedPort[];
  /** Whether to omit pairs between which nothing may be sent. */
  readonly isAllowedOnly: boolean;
}

/** Whether a port is reached in no case, in some, or in all. */
export type Answer = "no" | "some" | "yes";

/**
 * Returns the matrix of the running pods. The cases between groups of several pods are their pairs. A pod with itself
 * is not a case, since it always reaches itself, unless it is the only one of its group.
 */
export function matrixOf(
  index: PolicyIndex,
  by: Grouping,
  {
    newPods = new Map<string, string>(),
    waysIn = [],
    isShown = () => true,
    from: isSource,
    to: isDestination,
  }: Scope = {},
): Matrix {
  const connections = new PodConnections(index);
  const toOutside = new OutsideConnections(connections, "to outside");
  const fromOutside = new OutsideConnections(connections, "from outside");
  const { pods } = connections.pairs;
  const running = [...pods.keys()].flatMap((key) => index.pods.get(key)?.pod ?? []);
  const existing = running.filter(({ key }) => !newPods.has(key));
  const groups = groupsOf(existing, by).map((group): MatrixEnd => {
    const kind = group.pods.some(isShown) ? "pods" : "other pods";
    return { ...group, kind, regions: [] };
  });
  const isAsked = isSource === "new pod" || isDestination === "new pod";
  const young = running.flatMap((pod): readonly MatrixEnd[] => {
    const name = newPods.get(pod.key);
    return name === undefined ? [] : [{ name, kind: "new pod", pods: [pod], regions: [], isAsked }];
  });
  const all = groups.length === 0 ? [] : [...groups, ...regionsFor(index, existing).map(outsideEnd), ...young];
  const named = typeof isDestination === "object" ? [isDestination.domainName] : domainNamesIn([index]);
  const names = named.map((name) => domainNameEnd(name, regionsFor(index, existing, name)));
  const sources = chosenEnds([...all, ...waysIn], isSource);
  const destinations = typeof isDestination === "object" ? names : chosenEnds([...all, ...names], isDestination);
  const ends = [...new Set([...all, ...sources, ...destinations])];
  const casts = new Map(
    ends.map((end) => [end, representativePods(end.pods.flatMap(({ key }) => pods.get(key) ?? []))]),
  );
  const castFor = (end: MatrixEnd): RepresentativePods => casts.get(end) ?? [];
  const inRegions = regionsFor(
    index,
    waysIn.flatMap(({ wayIn }) => wayIn?.controllers ?? []),
  );
  // A pod without addresses of one family does not try those of a name.
  const inRegionsOf = ({ regions }: MatrixEnd, ask: (region: OutsideRegion) => Connections | undefined) =>
    connections.together(regions.map(ask).filter((one) => one !== undefined));
  const onlyPods = new Map(ends.map((end) => [end, onlyPod(castFor(end))]));
  return {
    groups,
    sources,
    destinations,
    blocks: blocksOf(ends, by, castFor),
    areOwn: (from, to) => {
      const [source, destination] = [onlyPods.get(from), onlyPods.get(to)];
      return source !== undefined && destination !== undefined && isOwn(source, destination);
    },
    between: (from, to) => {
      const [source, destination] = [onlyPods.get(from), onlyPods.get(to)];
      // A direct look-up for one pair: 2,000 pods without owners have four million pairs.
      if (source !== undefined && destination !== undefined) return connections.ofPair(source, destination);
      if (from.regions.length > 0 && to.regions.length > 0) return undefined;
      if (from.regions.length > 0) return inRegionsOf(from, (region) => fromOutside.with(region, castFor(to)));
      if (to.regions.length > 0) return inRegionsOf(to, (region) => toOutside.with(region, castFor(from)));
      if (from.wayIn !== undefined)
        return connectionsIn(from.wayIn, to.pods, connections, { regions: inRegions, reached: fromOutside });
      const cases: (Connections | undefined)[] = [];
      forEachPair(castFor(from), castFor(to), (a, b) => {
        cases.push(connections.ofPair(a, b));
      });
      return connections.together(cases);
    },
  };
}

/** Returns the groups whose pods are all chosen; of other groups, each chosen pod as an end of its own. */
function chosenEnds(ends: readonly MatrixEnd[], isChosen: Scope["from"]): readonly MatrixEnd[] {
  if (isChosen === undefined) return ends;
  if (isChosen === "outside") return ends.filter(({ kind }) => kind === "outside" || kind === "way in");
  if (isChosen === "new pod") return ends.filter(({ kind }) => kind === "new pod");
  return ends.flatMap((group): readonly MatrixEnd[] => {
    if (group.kind !== "pods" && group.kind !== "other pods") return [];
    const some = group.pods.filter(isChosen);
    if (some.length === group.pods.length) return [group];
    return some.map((pod) => ({ name: pod.key, kind: "pods", pods: [pod], regions: [] }));
  });
}

/** Merges only single pods: for groups of several, the node of such a pod may matter. */
function blocksOf(
  ends: readonly MatrixEnd[],
  by: Grouping,
  castFor: (end: MatrixEnd) => RepresentativePods,
): readonly Block[] {
  const blocks = new Map<unknown, [MatrixEnd, ...MatrixEnd[]]>();
  for (const group of ends) {
    const pod = group.kind === "pods" ? onlyPod(castFor(group)) : undefined;
    const key = pod === undefined ? group : `${pod.classNumber} ${by === "pod" ? "" : (pod.nodeName ?? "")}`;
    const block = blocks.get(key);
    if (block === undefined) blocks.set(key, [group]);
    else block.push(group);
  }
  return [...blocks.values()];
}

/** Returns the answer for one port. */
export function answerFor(connections: Connections | undefined, { protocol, port }: NumberedPort): Answer {
  if (connections === undefined || !includes(connections.some, protocol, port)) return "no";
  return includes(connections.every, protocol, port) ? "yes" : "some";
}
