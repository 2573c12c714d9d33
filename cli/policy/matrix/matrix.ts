import type { Protocol } from "../../../policyd/cluster/model.ts";
import type { PolicyIndex } from "../../../policyd/policy/evaluate/policy_index.ts";
import type { Grouping } from "../../cluster/group.ts";
import { groupsOf } from "../../cluster/group.ts";
import { includes } from "../connections/connection_set.ts";
import type { Connections } from "../connections/pod_connections.ts";
import { isOwn } from "../connections/pair_table.ts";
import { PodConnections } from "../connections/pod_connections.ts";
import type { Chosen } from "../../cluster/chosen_pods.ts";
import type { Cast } from "./cast.ts";
import { castOf, forEachPair, onlyPod } from "./cast.ts";
import type { MatrixEnd } from "./end.ts";
import { outsideEnd } from "./end.ts";
import { OutsideConnections, regionsFor } from "./outside.ts";
import { connectionsIn } from "./way_in_end.ts";

/** A port that is asked about. */
export interface PortQuestion {
  readonly protocol: Protocol;
  readonly port: number;
}

/** Who may send what to whom, as far as policies go. */
export interface Matrix {
  /** The pods that run. */
  readonly groups: readonly MatrixEnd[];
  /** The rows and the columns: those asked about of the pods, of the outside and of pods that do not exist yet. */
  readonly sources: readonly MatrixEnd[];
  readonly destinations: readonly MatrixEnd[];
  /** The connections between two ends; undefined where no packet can go. */
  readonly between: (from: MatrixEnd, to: MatrixEnd) => Connections | undefined;
  /** Whether they are a pod and itself, or a pod and one of the host's network on its node: no NetworkPolicy is between them. */
  readonly areOwn: (from: MatrixEnd, to: MatrixEnd) => boolean;
  /**
   * Ends among which policies tell no difference: what is between two of them is so between all but those that
   * {@link areOwn}.
   */
  readonly blocks: readonly Block[];
}

/** At least one end. */
export type Block = readonly [MatrixEnd, ...MatrixEnd[]];

/** Which part of a matrix is asked about. */
export interface Scope {
  /** Pods among those of the index that do not exist yet, by key, with their names. */
  readonly newPods?: ReadonlyMap<string, string>;
  /** Rows of the outside as it comes in through controllers. */
  readonly waysIn?: readonly MatrixEnd[];
  /** Which pods the rows and the columns are; without it all, the outside and new pods. */
  readonly from?: Chosen | undefined;
  readonly to?: Chosen | undefined;
}

/** Whether a port is reached in no case, in some or in all. */
export type Answer = "no" | "some" | "yes";

/**
 * The matrix of the pods that run. Between groups of several pods the cases are their pairs: not those of a pod and
 * itself, which always reaches itself, unless the group has but one.
 */
export function matrixOf(
  index: PolicyIndex,
  by: Grouping,
  { newPods = new Map<string, string>(), waysIn = [], from: isSource, to: isDestination }: Scope = {},
): Matrix {
  const connections = new PodConnections(index);
  const toOutside = new OutsideConnections(connections, "to outside");
  const fromOutside = new OutsideConnections(connections, "from outside");
  const { pods } = connections.pairs;
  const running = [...pods.keys()].flatMap((key) => index.pods.get(key)?.pod ?? []);
  const existing = running.filter(({ key }) => !newPods.has(key));
  const groups = groupsOf(existing, by).map((group): MatrixEnd => ({ ...group, kind: "pods", region: undefined }));
  const young = running.flatMap((pod): readonly MatrixEnd[] => {
    const name = newPods.get(pod.key);
    return name === undefined ? [] : [{ name, kind: "new pod", pods: [pod], region: undefined }];
  });
  const all = groups.length === 0 ? [] : [...groups, ...regionsFor(index, existing).map(outsideEnd), ...young];
  const sources = isSource === undefined ? [...all, ...waysIn] : chosenEnds(groups, isSource);
  const destinations = isDestination === undefined ? all : chosenEnds(groups, isDestination);
  const ends = [...new Set([...all, ...sources, ...destinations])];
  const casts = new Map(ends.map((end) => [end, castOf(end.pods.flatMap(({ key }) => pods.get(key) ?? []))]));
  const castFor = (end: MatrixEnd): Cast => casts.get(end) ?? [];
  const inRegions = regionsFor(
    index,
    waysIn.flatMap(({ wayIn }) => wayIn?.controllers ?? []),
  );
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
      // One pair, of which there are four million among 2,000 pods without owners.
      if (source !== undefined && destination !== undefined) return connections.ofPair(source, destination);
      if (from.region !== undefined)
        return to.region === undefined ? fromOutside.with(from.region, castFor(to)) : undefined;
      if (to.region !== undefined) return toOutside.with(to.region, castFor(from));
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

/** Of a group of which only some pods are chosen each of these by itself. */
function chosenEnds(groups: readonly MatrixEnd[], isChosen: Chosen): readonly MatrixEnd[] {
  return groups.flatMap((group): readonly MatrixEnd[] => {
    const some = group.pods.filter(isChosen);
    if (some.length === group.pods.length) return [group];
    return some.map((pod) => ({ name: pod.key, kind: "pods", pods: [pod], region: undefined }));
  });
}

/** Only pods that stand alone are put together; to groups of several it may matter on which node such a pod is. */
function blocksOf(ends: readonly MatrixEnd[], by: Grouping, castFor: (end: MatrixEnd) => Cast): readonly Block[] {
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

/** Answers for one port by the connections. */
export function answerFor(connections: Connections | undefined, { protocol, port }: PortQuestion): Answer {
  if (connections === undefined || !includes(connections.some, protocol, port)) return "no";
  return includes(connections.every, protocol, port) ? "yes" : "some";
}
