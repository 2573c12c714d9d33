import { podClasses } from "../../../objects/semantics/policies/pod_class.ts";
import type { PolicyIndex } from "../../../objects/semantics/policies/policy_index.ts";

/** A pod with its class: policies do not distinguish pods of one class. */
export interface ClassifiedPod {
  readonly key: string;
  /** The number of the class. */
  readonly classNumber: number;
  readonly isHostNetwork: boolean;
  readonly nodeName: string | undefined;
}

/** Returns the pods that have not finished, by their keys. */
export function classifiedPods(index: PolicyIndex): ReadonlyMap<string, ClassifiedPod> {
  const pods = podClasses(index).flatMap(({ pods: keys, isHostNetwork }, classNumber) =>
    keys.map((key) => ({ key, classNumber, isHostNetwork, nodeName: index.pods.get(key)?.pod.nodeName })),
  );
  return new Map(pods.map((pod) => [pod.key, pod]));
}

/** A result for pairs of pods, computed once for all pairs that policies do not distinguish. */
export class PairTable<T> {
  /** The pods that can send and receive, which are those that have not finished. */
  readonly pods: ReadonlyMap<string, ClassifiedPod>;
  readonly #evaluate: (source: string, destination: string) => T;
  /** By the number of the source's class. */
  readonly #found: Map<number, { readonly value: T }>[] = [];

  /** @param evaluate computes the result for two pods by their keys, only from what policies say about the two */
  constructor(index: PolicyIndex, evaluate: (source: string, destination: string) => T) {
    this.#evaluate = evaluate;
    this.pods = classifiedPods(index);
  }

  /** Returns the result for two of {@link pods}. */
  get(source: ClassifiedPod, destination: ClassifiedPod): T {
    // Two classes have two results: one for a pod and itself or its own node, and one for all other pairs.
    const place = destination.classNumber * 2 + (isOwn(source, destination) ? 1 : 0);
    let row = this.#found[source.classNumber];
    if (row === undefined) this.#found[source.classNumber] = row = new Map<number, { readonly value: T }>();
    const before = row.get(place);
    if (before !== undefined) return before.value;
    const value = this.#evaluate(source.key, destination.key);
    row.set(place, { value });
    return value;
  }
}

/** Returns whether two ends are a pod and itself (POL-06), or a pod and the node it runs on (POL-07). */
export function isOwn(a: ClassifiedPod, b: ClassifiedPod): boolean {
  if (a.isHostNetwork !== b.isHostNetwork) return a.nodeName !== undefined && a.nodeName === b.nodeName;
  return a.key === b.key;
}
