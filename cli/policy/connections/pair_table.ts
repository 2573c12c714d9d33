import { podClasses } from "../../../policyd/policy/evaluate/pod_class.ts";
import type { PolicyIndex } from "../../../policyd/policy/evaluate/policy_index.ts";

/** A pod as policies tell it from others. */
export interface ClassifiedPod {
  readonly key: string;
  /** Of two pods with one number policies cannot tell which is which. */
  readonly classNumber: number;
  readonly isHostNetwork: boolean;
  readonly nodeName: string | undefined;
}

/** What is found out for pairs of pods, once for all pairs that policies cannot tell apart. */
export class PairTable<T> {
  /** Those that can send and receive: that have not finished. */
  readonly pods: ReadonlyMap<string, ClassifiedPod>;
  readonly #judge: (source: string, destination: string) => T;
  readonly #found: Map<number, { readonly value: T }>[];

  /** @param judge of two pods by their keys; depends on nothing but what policies say about the two */
  constructor(index: PolicyIndex, judge: (source: string, destination: string) => T) {
    this.#judge = judge;
    const classes = podClasses(index);
    this.#found = classes.map(() => new Map<number, { readonly value: T }>());
    const pods = classes.flatMap(({ pods: keys, isHostNetwork }, classNumber) =>
      keys.map((key) => ({ key, classNumber, isHostNetwork, nodeName: index.pods.get(key)?.pod.nodeName })),
    );
    this.pods = new Map(pods.map((pod) => [pod.key, pod]));
  }

  /** For two of {@link pods}. */
  get(source: ClassifiedPod, destination: ClassifiedPod): T {
    // Two answers for each two classes: a pod and itself or its own node, and all others.
    const place = destination.classNumber * 2 + (isOwn(source, destination) ? 1 : 0);
    const row = this.#found[source.classNumber];
    const before = row?.get(place);
    if (before !== undefined) return before.value;
    const value = this.#judge(source.key, destination.key);
    row?.set(place, { value });
    return value;
  }
}

/** Whether the two are a pod and itself (POL-06), or a pod and the node it runs on (POL-07). */
export function isOwn(a: ClassifiedPod, b: ClassifiedPod): boolean {
  if (a.isHostNetwork !== b.isHostNetwork) return a.nodeName !== undefined && a.nodeName === b.nodeName;
  return a.key === b.key;
}
