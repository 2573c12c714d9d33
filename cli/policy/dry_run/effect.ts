import { type Direction, DIRECTIONS } from "../../../objects/semantics/policies/flow.ts";
import type { Policy } from "../policy_parts.ts";
import { isFinished } from "../../../objects/semantics/policies/address_owner.ts";
import type { PodEntry, PolicyIndex } from "../../../objects/semantics/policies/policy_index.ts";
import { groupName } from "../../cluster/group.ts";
import { type EndGroup, NO_SIZES, type Sides } from "../diff/end_class.ts";
import { groupNames } from "../diff/merge.ts";
import type { Shown } from "../../input/shown.ts";
import type { ObjectChange } from "./apply.ts";

/** A policy that is added, changed or deleted, and the pods that it selects. */
export interface PolicyEffect {
  readonly type: ObjectChange["type"];
  /** `NetworkPolicy shop/web` */
  readonly name: string;
  readonly file: string;
  readonly line: number;
  /** For a deleted policy, the pods that it selected. */
  readonly selects: PodNames;
}

/** Pods by the names of their workloads, or of whole namespaces. */
export interface PodNames {
  readonly pods: number;
  readonly names: readonly string[];
}

/** Pods that NetworkPolicies select in a direction only before, or only after, the change. */
export interface IsolationEffect {
  readonly direction: Direction;
  readonly type: "isolated" | "no longer isolated";
  readonly of: PodNames;
}

/** Returns the changes of policies. */
export function policyEffects(sides: Sides, changes: readonly ObjectChange[]): readonly PolicyEffect[] {
  return changes.flatMap(({ type, placed: { object, file, line } }): readonly PolicyEffect[] => {
    if (object.kind !== "NetworkPolicy" && object.kind !== "ClusterNetworkPolicy") return [];
    const index = type === "deleted" ? sides.before : sides.after;
    const selects = podNames(index, selectionOf(index, object));
    return [{ type, name: `${object.kind} ${object.key}`, file, line, selects }];
  });
}

/** Returns the changes of isolation of shown pods on both sides: a new pod had no isolation to lose. */
export function isolationEffects({ before, after }: Sides, isShown: Shown): readonly IsolationEffect[] {
  const isIsolated = (index: PolicyIndex, key: string, direction: Direction): boolean =>
    (index.pods.get(key)?.subject?.profile[direction].isolating.length ?? 0) > 0;
  return DIRECTIONS.flatMap((direction) =>
    (["isolated", "no longer isolated"] as const).flatMap((type): readonly IsolationEffect[] => {
      const of = podNames(after, ({ pod: { key, namespace, labels } }) => {
        if (!before.pods.has(key) || !isShown(namespace, labels)) return false;
        const [was, is] = [isIsolated(before, key, direction), isIsolated(after, key, direction)];
        return type === "isolated" ? is && !was : was && !is;
      });
      return of.pods === 0 ? [] : [{ direction, type, of }];
    }),
  );
}

/** Returns a test whether a policy selects a pod, in any direction; an absent policy selects nothing. */
export function selectionOf(index: PolicyIndex, { kind, key }: Policy): (entry: PodEntry) => boolean {
  const all = kind === "NetworkPolicy" ? index.networkPolicies : index.clusterPolicies;
  const members = all.find(({ policy }) => policy.key === key)?.subject;
  return ({ subject }) => subject !== undefined && members?.[subject.identity.number] === 1;
}

/** Returns the nodes of the running pods for which something holds. */
export function nodesOf({ pods }: PolicyIndex, holds: (entry: PodEntry) => boolean): ReadonlySet<string> {
  const chosen = [...pods.values()].filter((entry) => !isFinished(entry.pod) && holds(entry));
  return new Set(chosen.flatMap(({ pod }) => pod.nodeName ?? []));
}

/** Returns the running pods for which something holds. */
export function podNames({ pods }: PolicyIndex, holds: (entry: PodEntry) => boolean): PodNames {
  const groups = new Map<string, EndGroup>();
  const chosen = new Set<EndGroup>();
  const partly = new Set<EndGroup>();
  let count = 0;
  for (const entry of pods.values()) {
    if (isFinished(entry.pod)) continue;
    const name = groupName(entry.pod, "workload");
    const made = { name, kind: "pods" as const, whole: entry.pod.namespace, sizes: NO_SIZES };
    const group = groups.get(name) ?? made;
    groups.set(name, group);
    if (!holds(entry)) partly.add(group);
    else {
      chosen.add(group);
      count++;
    }
  }
  const whole = new Set([...chosen].filter((group) => !partly.has(group)));
  const some = [...chosen].flatMap((group) => (partly.has(group) ? [`${group.name} (some)`] : []));
  return { pods: count, names: [...groupNames([...groups.values()])(whole), ...some.sort()] };
}
