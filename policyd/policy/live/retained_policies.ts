import type { Clock } from "../../clock.ts";
import type { Namespace, NetworkPolicy } from "../../cluster/model.ts";

/** The end of a namespace may be seen so much later than the deletion of what is in it. */
const SEEN_LATE_MILLISECONDS = 10_000;

/** A namespace from its creation to the end of its last pod. */
export interface NamespaceLife {
  readonly namespace: string;
  /** The policies that were deleted since they went with the namespace, by key: its pods keep them. */
  readonly retained: ReadonlyMap<string, NetworkPolicy>;
}

interface OwnLife extends NamespaceLife {
  readonly retained: Map<string, NetworkPolicy>;
  /** "ending" until its object is gone. */
  phase: "active" | "ending" | "gone";
  pods: number;
}

interface Deletion {
  readonly policy: NetworkPolicy;
  readonly at: number;
}

/**
 * The policies that went with their namespace: in whatever order the API server deletes what is in a namespace, its pods
 * stay isolated until they are gone (CVE-2024-7598). Who deletes a policy from a namespace that stays gets what he asked
 * for at once.
 */
export class RetainedPolicies {
  readonly #clock: Pick<Clock, "now">;
  readonly #lives = new Map<string, OwnLife>();
  readonly #own = new Map<NamespaceLife, OwnLife>();
  /** What was deleted shortly ago from namespaces that did not end, the oldest first. */
  readonly #recent = new Map<string, Deletion>();

  constructor(clock: Pick<Clock, "now">) {
    this.#clock = clock;
  }

  /** A pod of the namespace comes. @returns the life it is part of until {@link leave} */
  enter(namespace: string): NamespaceLife {
    const life = this.#life(namespace);
    life.pods++;
    this.#own.set(life, life);
    return life;
  }

  /** A pod goes. */
  leave(life: NamespaceLife): void {
    const own = this.#own.get(life);
    if (own === undefined) return;
    own.pods--;
    this.#forgetEmpty(own);
  }

  /** A Namespace as it is now; undefined for one that is gone. @returns whether policies are retained by this */
  namespaceChanged(name: string, namespace: Pick<Namespace, "isTerminating"> | undefined): boolean {
    const known = this.#lives.get(name);
    if (namespace?.isTerminating === false) {
      // One that is there again is another one: its pods begin without what those of the former keep.
      if (known !== undefined && known.phase !== "active") this.#lives.delete(name);
      return false;
    }
    const life = this.#life(name);
    const isNew = life.phase === "active";
    life.phase = namespace === undefined ? "gone" : "ending";
    const before = life.retained.size;
    if (isNew) this.#retainRecent(life);
    this.#forgetEmpty(life);
    return life.retained.size > before;
  }

  policyDeleted(policy: NetworkPolicy): void {
    const life = this.#lives.get(policy.namespace);
    if (life !== undefined && life.phase !== "active") life.retained.set(policy.key, policy);
    else this.#recent.set(policy.key, { policy, at: this.#clock.now() });
    this.#forgetOld();
  }

  /** What is there need not be retained. */
  policySet({ namespace, key }: Pick<NetworkPolicy, "namespace" | "key">): void {
    this.#recent.delete(key);
    this.#lives.get(namespace)?.retained.delete(key);
  }

  #retainRecent(life: OwnLife): void {
    this.#forgetOld();
    for (const [key, { policy }] of this.#recent) {
      if (policy.namespace !== life.namespace) continue;
      life.retained.set(key, policy);
      this.#recent.delete(key);
    }
  }

  #life(namespace: string): OwnLife {
    const known = this.#lives.get(namespace);
    if (known !== undefined) return known;
    const life: OwnLife = { namespace, retained: new Map(), phase: "active", pods: 0 };
    this.#lives.set(namespace, life);
    return life;
  }

  /** Pods may still come to a namespace that is about to end. */
  #forgetEmpty(life: OwnLife): void {
    if (life.pods > 0) return;
    this.#own.delete(life);
    if (life.phase !== "ending" && this.#lives.get(life.namespace) === life) this.#lives.delete(life.namespace);
  }

  #forgetOld(): void {
    const oldest = this.#clock.now() - SEEN_LATE_MILLISECONDS;
    for (const [key, { at }] of this.#recent) {
      if (at >= oldest) return;
      this.#recent.delete(key);
    }
  }
}
