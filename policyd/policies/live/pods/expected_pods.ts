import type { Pod } from "../../../../objects/model.ts";
import { plainLife } from "../index/retained_policies.ts";
import type { ProfiledPod, LocalPod } from "./local_pods.ts";

/**
 * A Pod that is bound to this node but has no attachment: its ADD will follow, since the kubelet learns of its pods
 * when the daemon does. Whatever its policies need is put in force in advance, so that ADD has little to wait for.
 */
export interface ExpectedPod extends ProfiledPod {
  readonly type: "expected";
  readonly podKey: string;
  pod: Pod;
}

/**
 * More than the pods of any node. Anybody who may create Pods can bind any number of them to a node, whose kubelet then
 * refuses them: nothing is prepared for Pods above this number.
 */
export const MOST_EXPECTED = 256;

/** The effect of a change on an expected pod. */
export interface ExpectedPodChange {
  /** Its policies may have changed. */
  readonly changed?: ExpectedPod;
  /** The pod is not expected any more. */
  readonly gone?: ExpectedPod;
}

/** The pods whose ADD is expected, one for each Pod. */
export class ExpectedPods {
  readonly #nodeName: string;
  readonly #pods = new Map<string, ExpectedPod>();

  constructor(nodeName: string) {
    this.#nodeName = nodeName;
  }

  /**
   * Records a Pod, undefined for one that is gone. It is expected until the rules of an attachment with its name are in
   * force.
   *
   * @param attached the attachments with its name
   */
  take(podKey: string, pod: Pod | undefined, attached: ReadonlySet<LocalPod>): ExpectedPodChange {
    const known = this.#pods.get(podKey);
    const expected = pod !== undefined && this.#isExpected(pod) && !isAnyClaimed(attached) ? pod : undefined;
    if (expected === undefined) {
      this.#pods.delete(podKey);
      return known === undefined ? NOTHING : { gone: known };
    }
    if (known === undefined) return this.#pods.size < MOST_EXPECTED ? this.#add(expected) : NOTHING;
    known.pod = expected;
    return { changed: known };
  }

  values(): Iterable<ExpectedPod> {
    return this.#pods.values();
  }

  /** Goes through all of them, which are few. */
  ofNamespace(namespace: string): readonly ExpectedPod[] {
    return [...this.#pods.values()].filter(({ pod }) => pod.namespace === namespace);
  }

  #isExpected({ nodeName, hostNetwork, phase, isTerminating }: Pod): boolean {
    return nodeName === this.#nodeName && !hostNetwork && phase === "Pending" && !isTerminating;
  }

  #add(pod: Pod): ExpectedPodChange {
    // A namespace that is ending accepts no new pods, so no policies are retained for one.
    const life = plainLife(pod.namespace);
    const changed: ExpectedPod = { type: "expected", podKey: pod.key, life, pod, wanted: undefined };
    this.#pods.set(pod.key, changed);
    return { changed };
  }
}

const NOTHING: ExpectedPodChange = {};

/** Whether the rules of any of them are in force. */
function isAnyClaimed(attached: ReadonlySet<LocalPod>): boolean {
  for (const { claimed } of attached) if (claimed !== undefined) return true;
  return false;
}
