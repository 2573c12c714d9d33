import type { NewPods } from "../question_ends.ts";
import { NEW_NAMESPACE } from "../stand_ins.ts";
import { type Direction, DIRECTIONS } from "../../../objects/semantics/policies/flow.ts";
import type { Pod } from "../../../objects/model.ts";
import type { PolicyIndex } from "../../../objects/semantics/policies/policy_index.ts";
import { connectionText, isEmpty } from "../connections/connection_set.ts";
import { cellsOf } from "../matrix/cell.ts";
import type { Matrix } from "../matrix/matrix.ts";

/** The pods that policies cover, and the parts that they leave open. Pods of the host's network are left out: no policy selects them. */
export interface Coverage {
  readonly pods: number;
  /** The pods that a policy selects, by direction. */
  readonly selected: Readonly<Record<Direction, number>>;
  /** The workloads with a pod that no policy selects for these directions. */
  readonly unselected: readonly { readonly name: string; readonly directions: readonly Direction[] }[];
  /** The namespaces with pods, and whether a new pod without labels is isolated, or nobody new reaches it. */
  readonly namespaces: readonly ({ readonly name: string } & Readonly<Record<Direction, boolean>>)[];
  readonly outside: readonly { readonly from: string; readonly to: string; readonly connections: readonly string[] }[];
}

/**
 * Returns the coverage of the pods of a matrix.
 *
 * @param matrix by workload, from outside, with the new pods of each namespace, all in the index
 * @param young the new pods
 */
export function coverageOf(index: PolicyIndex, matrix: Matrix, young: Pick<NewPods, "labels">): Coverage {
  const groups = matrix.groups
    .filter(({ kind }) => kind === "pods")
    .map(({ name, pods }) => ({ name, pods: pods.filter(({ hostNetwork }) => !hostNetwork) }));
  const pods = groups.flatMap((group) => group.pods);
  const isSelected = (pod: Pod, direction: Direction): boolean => policiesOf(index, pod, direction).length > 0;
  const count = (direction: Direction): number => pods.filter((pod) => isSelected(pod, direction)).length;
  const unselected = groups.map((group) => ({
    name: group.name,
    directions: DIRECTIONS.filter((direction) => group.pods.some((pod) => !isSelected(pod, direction))),
  }));
  const outside = [...cellsOf(matrix, false, () => "")].flatMap(({ from, to, connections }) =>
    to.kind !== "pods" || connections === undefined || isEmpty(connections.some)
      ? []
      : [{ from: from.name, to: to.name, connections: connectionText(connections.some).split(",") }],
  );
  return {
    pods: pods.length,
    selected: { ingress: count("ingress"), egress: count("egress") },
    unselected: unselected.filter(({ directions }) => directions.length > 0),
    namespaces: namespacesOf(index, matrix, young, new Set(pods.map(({ namespace }) => namespace))),
    outside,
  };
}

function namespacesOf(
  index: PolicyIndex,
  { destinations, between }: Matrix,
  { labels }: Pick<NewPods, "labels">,
  names: ReadonlySet<string>,
): Coverage["namespaces"] {
  // New pods without labels, one in each namespace, and one in a new namespace without labels.
  const plain = destinations.flatMap((end) => {
    const pod = end.kind === "new pod" ? end.pods[0] : undefined;
    return pod === undefined || Object.keys(labels.get(pod.key) ?? {}).length > 0 ? [] : [{ end, pod }];
  });
  const other = plain.find(({ pod }) => pod.namespace.startsWith(NEW_NAMESPACE))?.end;
  return [...names].sort().map((name) => {
    const { end, pod } = plain.find((one) => one.pod.namespace === name) ?? {};
    const isClosed = (direction: Direction): boolean => {
      if (end === undefined || pod === undefined || other === undefined) return false;
      if ((index.pods.get(pod.key)?.subject?.profile[direction].isolating.length ?? 0) > 0) return true;
      const connections = direction === "ingress" ? between(other, end) : between(end, other);
      return connections === undefined || isEmpty(connections.some);
    };
    return { name, ingress: isClosed("ingress"), egress: isClosed("egress") };
  });
}

/** Returns the policies that select a pod for a direction, as `NetworkPolicy shop/web`. */
export function policiesOf(index: PolicyIndex, pod: Pod, direction: Direction): readonly string[] {
  const profile = index.pods.get(pod.key)?.subject?.profile[direction];
  return [...(profile?.admin ?? []), ...(profile?.isolating ?? []), ...(profile?.baseline ?? [])].map(
    ({ policy }) => `${policy.kind} ${policy.key}`,
  );
}
