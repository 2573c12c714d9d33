import type { Protocol } from "../../../policyd/cluster/model.ts";
import type { PolicyIndex } from "../../../policyd/policy/evaluate/policy_index.ts";
import type { Group, Grouping } from "../../cluster/group.ts";
import { groupsOf } from "../../cluster/group.ts";
import { includes } from "../connections/connection_set.ts";
import type { Connections } from "../connections/pod_connections.ts";
import { isOwn } from "../connections/pair_table.ts";
import { PodConnections } from "../connections/pod_connections.ts";
import type { Cast } from "./cast.ts";
import { castOf, forEachPair, onlyPod } from "./cast.ts";

/** A port that is asked about. */
export interface PortQuestion {
  readonly protocol: Protocol;
  readonly port: number;
}

/** Who may send what to whom, as far as policies go. */
export interface Matrix {
  readonly groups: readonly Group[];
  /** The connections between two of the groups; undefined where no packet can go. */
  readonly between: (from: Group, to: Group) => Connections | undefined;
  /** Whether they are a pod and itself, or a pod and one of the host's network on its node: no NetworkPolicy is between them. */
  readonly areOwn: (from: Group, to: Group) => boolean;
  /** Groups among which policies tell no difference: what is between two of them is so between all but those that {@link areOwn}. */
  readonly blocks: readonly Block[];
}

/** At least one group. */
export type Block = readonly [Group, ...Group[]];

/** Whether a port is reached in no case, in some or in all. */
export type Answer = "no" | "some" | "yes";

/**
 * The matrix of the pods that run. Between groups of several pods the cases are their pairs: not those of a pod and
 * itself, which always reaches itself, unless the group has but one.
 */
export function matrixOf(index: PolicyIndex, by: Grouping): Matrix {
  const connections = new PodConnections(index);
  const { pods } = connections.pairs;
  const running = [...pods.keys()].flatMap((key) => index.pods.get(key)?.pod ?? []);
  const groups = groupsOf(running, by);
  const casts = new Map(groups.map((group) => [group, castOf(group.pods.flatMap(({ key }) => pods.get(key) ?? []))]));
  const castFor = (group: Group): Cast => casts.get(group) ?? [];
  const onlyPods = new Map(groups.map((group) => [group, onlyPod(castFor(group))]));
  return {
    groups,
    blocks: blocksOf(groups, by, castFor),
    areOwn: (from, to) => {
      const [source, destination] = [onlyPods.get(from), onlyPods.get(to)];
      return source !== undefined && destination !== undefined && isOwn(source, destination);
    },
    between: (from, to) => {
      const [source, destination] = [onlyPods.get(from), onlyPods.get(to)];
      // One pair, of which there are four million among 2,000 pods without owners.
      if (source !== undefined && destination !== undefined) return connections.pairs.get(source, destination);
      const cases: (Connections | undefined)[] = [];
      forEachPair(castFor(from), castFor(to), (a, b) => {
        cases.push(connections.pairs.get(a, b));
      });
      return connections.together(cases);
    },
  };
}

/** Only pods that stand alone are put together; to groups of several it may matter on which node such a pod is. */
function blocksOf(groups: readonly Group[], by: Grouping, castFor: (group: Group) => Cast): readonly Block[] {
  const blocks = new Map<unknown, [Group, ...Group[]]>();
  for (const group of groups) {
    const pod = onlyPod(castFor(group));
    const key = pod === undefined ? group : `${pod.classNumber} ${by === "pod" ? "" : (pod.nodeName ?? "")}`;
    const block = blocks.get(key);
    if (block === undefined) blocks.set(key, [group]);
    else block.push(group);
  }
  return [...blocks.values()];
}

/** What the connections mean for one port. */
export function answerFor(connections: Connections | undefined, { protocol, port }: PortQuestion): Answer {
  if (connections === undefined || !includes(connections.some, protocol, port)) return "no";
  return includes(connections.every, protocol, port) ? "yes" : "some";
}
