import type { ClassifiedPod } from "../connections/pair_table.ts";

/** The pods of a group by their classes: the fewest that show every possible kind of pair. */
export type RepresentativePods = readonly Role[];

/** The pods of one class in a group: one on each node and, if possible, a second one. */
interface Role {
  readonly pods: readonly [ClassifiedPod, ...ClassifiedPod[]];
  readonly byNode: ReadonlyMap<string | undefined, ClassifiedPod>;
}

export function representativePods(pods: Iterable<ClassifiedPod>): RepresentativePods {
  const roles = new Map<
    number,
    Role & { readonly pods: ClassifiedPod[]; readonly byNode: Map<string | undefined, ClassifiedPod> }
  >();
  for (const pod of pods) {
    const role = roles.get(pod.classNumber);
    if (role === undefined) roles.set(pod.classNumber, { pods: [pod], byNode: new Map([[pod.nodeName, pod]]) });
    else if (!role.byNode.has(pod.nodeName)) {
      role.pods.push(pod);
      role.byNode.set(pod.nodeName, pod);
    } else if (role.pods.length === 1) role.pods.push(pod);
  }
  return [...roles.values()];
}

/**
 * Visits pairs of two casts that represent all others: for each two roles, a pair of pods that are not special to each
 * other and, where it matters, a pod with its own node. No pod is paired with itself.
 */
export function forEachPair(
  from: RepresentativePods,
  to: RepresentativePods,
  visit: (source: ClassifiedPod, destination: ClassifiedPod) => void,
): void {
  for (const a of from) {
    for (const b of to) {
      const [source, destination] = [a.pods[0], b.pods[0]];
      if (source.isHostNetwork && !destination.isHostNetwork) {
        for (const pod of besideNode(source, b)) visit(source, pod);
      } else if (destination.isHostNetwork && !source.isHostNetwork) {
        for (const pod of besideNode(destination, a)) visit(pod, destination);
      } else if (source !== destination) visit(source, destination);
      else if (b.pods[1] !== undefined) visit(source, b.pods[1]);
    }
  }
}

/** Returns the pod of a group with exactly one. */
export function onlyPod([role, ...more]: RepresentativePods): ClassifiedPod | undefined {
  return more.length === 0 && role?.pods.length === 1 ? role.pods[0] : undefined;
}

/** Returns a pod on the node of a pod in the host's network, and one on another node, as far as they exist. */
function besideNode({ nodeName }: ClassifiedPod, { pods, byNode }: Role): readonly ClassifiedPod[] {
  const here = nodeName === undefined ? undefined : byNode.get(nodeName);
  const elsewhere = pods.find((pod) => nodeName === undefined || pod.nodeName !== nodeName);
  return [here, elsewhere].filter((pod) => pod !== undefined);
}
