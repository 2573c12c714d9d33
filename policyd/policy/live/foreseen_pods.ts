import type { Pod } from "../../cluster/model.ts";
import type { JudgedPod, LocalPod } from "./local_pods.ts";

/**
 * A pod that was bound to this node and has no attachment: its ADD is to come, since a kubelet learns of its pods where
 * the daemon does. What its policies need is put in force ahead, so that ADD has little to wait for.
 */
export interface ForeseenPod extends JudgedPod {
  readonly type: "foreseen";
  readonly podKey: string;
  pod: Pod;
}

/**
 * More than a node has pods. Who may create Pods can bind any number of them to a node, which its kubelet then refuses: of those
 * nothing is made ready.
 */
export const MOST_FORESEEN = 256;

/** What a change makes of a foreseen pod. */
export interface Foresight {
  /** Its policies may be others. */
  readonly changed?: ForeseenPod;
  /** It is no longer to come. */
  readonly gone?: ForeseenPod;
}

/** The pods whose ADD is to come, one for each Pod. */
export class ForeseenPods {
  readonly #nodeName: string;
  readonly #pods = new Map<string, ForeseenPod>();

  constructor(nodeName: string) {
    this.#nodeName = nodeName;
  }

  /**
   * Takes over a Pod, undefined for one that is gone. It is foreseen until an attachment of its name has what it needs in
   * force.
   *
   * @param attached those of its name
   */
  take(podKey: string, pod: Pod | undefined, attached: ReadonlySet<LocalPod>): Foresight {
    const known = this.#pods.get(podKey);
    const expected = pod !== undefined && this.#isExpected(pod) && !isAnyClaimed(attached) ? pod : undefined;
    if (expected === undefined) {
      this.#pods.delete(podKey);
      return known === undefined ? NOTHING : { gone: known };
    }
    if (known === undefined) return this.#pods.size < MOST_FORESEEN ? this.#add(expected) : NOTHING;
    known.pod = expected;
    return { changed: known };
  }

  /** The one whose Pod an attached pod is, and that nothing of a former life makes another. */
  of({ podKey, pod, life }: LocalPod): ForeseenPod | undefined {
    const foreseen = podKey === undefined ? undefined : this.#pods.get(podKey);
    return foreseen?.pod === pod && life?.isUnknown === false && life.retained.size === 0 ? foreseen : undefined;
  }

  values(): Iterable<ForeseenPod> {
    return this.#pods.values();
  }

  /** Looks at all of them, which are few. */
  ofNamespace(namespace: string): readonly ForeseenPod[] {
    return [...this.#pods.values()].filter(({ pod }) => pod.namespace === namespace);
  }

  #isExpected({ nodeName, hostNetwork, phase, isTerminating }: Pod): boolean {
    return nodeName === this.#nodeName && !hostNetwork && phase === "Pending" && !isTerminating;
  }

  #add(pod: Pod): Foresight {
    // A namespace that ends takes no new pods, so nothing is retained for one.
    const life = { namespace: pod.namespace, retained: new Map<string, never>(), isUnknown: false };
    const changed: ForeseenPod = { type: "foreseen", podKey: pod.key, life, pod, wanted: undefined };
    this.#pods.set(pod.key, changed);
    return { changed };
  }
}

const NOTHING: Foresight = {};

/** Whether any of them has what it needs in force. */
function isAnyClaimed(attached: ReadonlySet<LocalPod>): boolean {
  for (const { claimed } of attached) if (claimed !== undefined) return true;
  return false;
}
