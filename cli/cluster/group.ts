import type { Pod } from "../../objects/model.ts";
import { workloadText } from "../../objects/workload_name.ts";

export const GROUPINGS = ["pod", "workload", "namespace"] as const;

/** How pods are grouped. */
export type Grouping = (typeof GROUPINGS)[number];

/** Pods that are reported together. */
export interface Group {
  /** `NAMESPACE/POD`, `NAMESPACE/KIND/NAME` with the kind in lower case, or `NAMESPACE`. */
  readonly name: string;
  readonly pods: readonly [Pod, ...Pod[]];
}

/** Returns the pods in groups, sorted by the groups' names. */
export function groupsOf(pods: Iterable<Pod>, by: Grouping): readonly Group[] {
  const groups = new Map<string, [Pod, ...Pod[]]>();
  for (const pod of pods) {
    const name = groupName(pod, by);
    const group = groups.get(name);
    if (group === undefined) groups.set(name, [pod]);
    else group.push(pod);
  }
  const all = [...groups].map(([name, members]): Group => ({ name, pods: members }));
  return all.sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** Returns the name of a pod's group. */
export function groupName(pod: Pod, by: Grouping): string {
  if (by === "namespace") return pod.namespace;
  return by === "pod" ? pod.key : workloadText(pod);
}
