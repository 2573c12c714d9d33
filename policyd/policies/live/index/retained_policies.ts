import type { Clock } from "../../../lib/clock.ts";
import type { Namespace, NetworkPolicy } from "../../../../objects/model.ts";
import { RECENT_BYTES } from "../../../bounds.ts";
import { Budget, type BudgetBounds } from "../../../lib/budget.ts";
import { type PackedPolicy, packPolicy, unpackPolicy } from "../../retained/packed_policy.ts";
import type { RetainedStore } from "../../retained/retained_files.ts";

/**
 * How long after the deletion of its content the end of a namespace may be seen. Each kind has its own watch: after an
 * interruption it may wait 30 s to reconnect, as long for an answer, and as long again if the server asks for it.
 */
const SEEN_LATE_MILLISECONDS = 120_000;

/** The bytes that a deleted policy takes beside its text. */
const ENTRY_BYTES = 512;

/** A namespace from its creation to the end of its last pod. */
export interface NamespaceLife {
  readonly namespace: string;
  /** The policies that were deleted together with the namespace, by key: its pods keep them. */
  readonly retained: ReadonlyMap<string, NetworkPolicy>;
  /**
   * Nobody knows which policies its pods keep: it was ending, or gone, before this daemon started, or there was no room
   * for all of its policies that were deleted shortly before.
   */
  readonly isUnknown: boolean;
}

interface OwnLife extends NamespaceLife {
  readonly retained: Map<string, NetworkPolicy>;
  isUnknown: boolean;
  /** "ending" until its object is gone. */
  phase: "active" | "ending" | "gone";
  /** The keys of attachments. */
  readonly pods: Set<string>;
  /** The number under which it is saved; undefined while it is not. */
  number: number | undefined;
}

interface Deletion {
  readonly namespace: string;
  /** Undefined where there was no room. */
  readonly packed: PackedPolicy | undefined;
  readonly at: number;
}

export interface RetainedParts {
  readonly clock: Pick<Clock, "now" | "after">;
  readonly store: RetainedStore;
  /** The existing policies of a namespace. */
  readonly policiesIn: (namespace: string) => Iterable<NetworkPolicy>;
  /** Of recently deleted policies, in bytes. */
  readonly roomBounds?: BudgetBounds;
}

/**
 * Retains the policies that are deleted together with their namespace: in whatever order the API server deletes the
 * content of a namespace, its pods stay isolated until they are gone (CVE-2024-7598). A policy that is deleted from a
 * namespace that stays ends at once.
 *
 * When a namespace with pods begins to end, its policies are saved for the next daemon. A daemon that finds an ending
 * namespace of which nothing is saved cannot know which policies are gone already, and leaves its pods closed. If some
 * saved policies cannot be read, they may belong to any attached pod whose namespace does not exist: such pods stay
 * closed, too.
 */
export class RetainedPolicies {
  readonly #parts: RetainedParts;
  readonly #lives = new Map<string, OwnLife>();
  readonly #own = new Map<NamespaceLife, OwnLife>();
  /** By attachments that an earlier daemon has saved. */
  readonly #saved = new Map<string, OwnLife>();
  /**
   * Recently deleted policies of namespaces that were not ending, the oldest first. Those of a namespace for which there
   * was no room have one entry, by its name.
   */
  readonly #recent = new Map<string, Deletion>();
  readonly #room: Budget;
  /** The existing namespaces; recorded until all objects have arrived, and only if some saved files are unreadable. */
  readonly #there: Set<string> | undefined;
  /** The uids of the existing namespaces. */
  readonly #uids = new Map<string, string>();
  /** Attachments whose policies may be among those that could not be read. */
  #doubtful: ReadonlySet<string> = new Set();
  #hasBegun = false;
  /** Whether the timer that forgets the oldest is set. */
  #isWaiting = false;
  #lastNumber: number;

  constructor(parts: RetainedParts) {
    this.#parts = parts;
    this.#room = new Budget(parts.roomBounds ?? RECENT_BYTES);
    const { records, isWhole, lastNumber } = parts.store.load();
    this.#there = isWhole ? undefined : new Set();
    this.#lastNumber = lastNumber;
    for (const [number, { namespace, attachments, policies }] of records) {
      const life: OwnLife = {
        namespace,
        retained: new Map(policies.map((policy) => [policy.key, policy])),
        isUnknown: false,
        phase: "gone",
        pods: new Set(attachments),
        number,
      };
      this.#lives.set(namespace, life);
      this.#own.set(life, life);
      for (const key of attachments) this.#saved.set(key, life);
    }
  }

  /** Begins when all objects have arrived once: this daemon sees whatever ends from now on. */
  begin(): void {
    if (this.#hasBegun) return;
    this.#hasBegun = true;
    // Files without any Namespace do not show that one is missing (POL-24).
    const isDoubted = this.#there !== undefined && this.#there.size > 0;
    if (this.#saved.size === 0 && !isDoubted) return;
    // Attachments that an earlier daemon has saved may be gone by now.
    const present = this.#parts.store.attachments();
    if (isDoubted) {
      this.#doubtful = new Set([...present].filter((key) => !this.#saved.has(key)));
      for (const life of this.#own.values()) this.#doubt(life);
    }
    for (const life of new Set(this.#saved.values())) {
      for (const key of life.pods) if (!present.has(key)) this.#remove(life, key);
      this.#save(life);
    }
  }

  /**
   * Adds a pod to the present life of its namespace, also one that was attached before; a daemon with much to read adds
   * pods before {@link begin}. A pod that is added again stays in its life, though that may have ended.
   *
   * @param key its attachment's
   * @param before the life that it was part of until now
   * @returns the life it is part of until {@link leave}
   */
  enter(namespace: string, key: string, before?: NamespaceLife): NamespaceLife {
    if (before?.namespace === namespace) return before;
    this.leave(before, key);
    const saved = this.#saved.get(key);
    const life = saved?.namespace === namespace ? saved : this.#lifeOf(namespace, key);
    this.#own.set(life, life);
    if (life.pods.has(key)) return life;
    life.pods.add(key);
    this.#save(life);
    return life;
  }

  /** Removes a pod from its life; does nothing for a pod without a namespace. */
  leave(life: NamespaceLife | undefined, key: string): void {
    const own = life && this.#own.get(life);
    if (own !== undefined) this.#remove(own, key);
  }

  /** Records a Namespace, undefined for one that is gone. @returns whether this changes which policies its pods keep */
  namespaceChanged(name: string, namespace: Pick<Namespace, "isTerminating" | "uid"> | undefined): boolean {
    if (!this.#hasBegun && namespace !== undefined) this.#there?.add(name);
    if (!this.#hasBegun && namespace === undefined) this.#there?.delete(name);
    const isNext = this.#isNext(name, namespace);
    if (namespace === undefined) this.#uids.delete(name);
    else this.#uids.set(name, namespace.uid);
    const isMore = isNext && this.#replace(name);
    return (namespace?.isTerminating !== false && this.#end(name, namespace)) || isMore;
  }

  /** Whether this is a new namespace with the name of an earlier one, whose end may not have been seen. */
  #isNext(name: string, namespace: Pick<Namespace, "isTerminating" | "uid"> | undefined): boolean {
    if (namespace === undefined) return false;
    const hasEnd = (this.#lives.get(name)?.phase ?? "active") !== "active";
    const before = this.#uids.get(name) ?? "";
    const isOther = before !== "" && namespace.uid !== "" && before !== namespace.uid;
    return isOther || (hasEnd && !namespace.isTerminating);
  }

  /**
   * Separates the pods of a former namespace from those of a new one with its name. The former pods keep its policies
   * whose deletion was seen, and also the others, whose deletion may be seen later.
   *
   * @returns whether the former pods keep more policies than before
   */
  #replace(name: string): boolean {
    const life = this.#lives.get(name);
    if (life === undefined) return false;
    this.#lives.delete(name);
    const before = life.retained.size;
    const wasUnknown = life.isUnknown;
    this.#keepRecent(life);
    for (const policy of this.#parts.policiesIn(name)) life.retained.set(policy.key, policy);
    life.phase = "gone";
    this.#save(life);
    return life.retained.size > before || life.isUnknown !== wasUnknown;
  }

  /** Notes that a namespace is ending or gone. @returns as {@link namespaceChanged} */
  #end(name: string, namespace: Pick<Namespace, "isTerminating"> | undefined): boolean {
    const life = this.#life(name);
    const isNew = life.phase === "active";
    const wasUnknown = life.isUnknown;
    life.phase = namespace === undefined ? "gone" : "ending";
    const before = life.retained.size;
    if (isNew) {
      life.isUnknown = !this.#hasBegun && namespace !== undefined;
      this.#keepRecent(life);
      this.#save(life);
    }
    this.#forgetEmpty(life);
    return life.retained.size > before || life.isUnknown !== wasUnknown;
  }

  policyDeleted(policy: NetworkPolicy): void {
    const life = this.#lives.get(policy.namespace);
    if (life !== undefined && life.phase !== "active") life.retained.set(policy.key, policy);
    else this.#addRecent(policy);
    this.#forgetOld();
  }

  #addRecent(policy: NetworkPolicy): void {
    const { namespace, key } = policy;
    const packed = packPolicy(policy);
    const hasRoom = this.#room.take(namespace, sizeOf(packed));
    const entry = hasRoom ? key : namespace;
    this.#recent.delete(entry);
    this.#recent.set(entry, { namespace, packed: hasRoom ? packed : undefined, at: this.#parts.clock.now() });
  }

  /** Records an existing policy, which need not be retained. */
  policySet({ namespace, key }: Pick<NetworkPolicy, "namespace" | "key">): void {
    this.#forgetRecent(key);
    const life = this.#lives.get(namespace);
    if (life === undefined) return;
    life.retained.delete(key);
    if (life.phase === "ending") this.#save(life);
  }

  /** Retains the recently deleted policies of a namespace that ends; if some had no room, they are unknown. */
  #keepRecent(life: OwnLife): void {
    this.#forgetOld();
    for (const [entry, { namespace, packed }] of this.#recent) {
      if (namespace !== life.namespace) continue;
      if (packed === undefined) life.isUnknown = true;
      else life.retained.set(entry, unpackPolicy(packed));
      this.#forgetRecent(entry);
    }
  }

  #forgetRecent(entry: string): void {
    const recent = this.#recent.get(entry);
    if (recent?.packed !== undefined) this.#room.change(recent.namespace, -sizeOf(recent.packed));
    this.#recent.delete(entry);
  }

  #lifeOf(namespace: string, key: string): OwnLife {
    const hasEnd = (this.#lives.get(namespace)?.phase ?? "active") !== "active";
    if (hasEnd || !this.#isLost(namespace, key)) return this.#life(namespace);
    return { ...newLife(namespace), phase: "gone", isUnknown: true };
  }

  /** Whether the policies of a pod, whose namespace does not exist, may be among those that could not be read. */
  #isLost(namespace: string, key: string): boolean {
    return this.#doubtful.has(key) && this.#there?.has(namespace) === false;
  }

  /** Gives up a life whose pods were added before it was known that they are doubtful; they have no rules yet. */
  #doubt(life: OwnLife): void {
    const { namespace, pods, phase } = life;
    if (phase !== "active" || ![...pods].some((key) => this.#isLost(namespace, key))) return;
    life.phase = "gone";
    life.isUnknown = true;
    this.#lives.delete(namespace);
  }

  #life(namespace: string): OwnLife {
    const known = this.#lives.get(namespace);
    if (known !== undefined) return known;
    const life = newLife(namespace);
    this.#lives.set(namespace, life);
    return life;
  }

  /** Saves the policies that the pods of a life keep. Policies of a new namespace with its name are not among them. */
  #save(life: OwnLife): void {
    if (!this.#hasBegun || life.phase === "active" || life.isUnknown || life.pods.size === 0) return;
    const { namespace, retained, pods } = life;
    const isCurrent = this.#lives.get(namespace) === life;
    const there = isCurrent ? [...this.#parts.policiesIn(namespace)] : [];
    life.number ??= ++this.#lastNumber;
    this.#parts.store.save(life.number, {
      namespace,
      attachments: [...pods],
      policies: [...retained.values(), ...there],
    });
  }

  #remove(life: OwnLife, key: string): void {
    life.pods.delete(key);
    if (this.#saved.get(key) === life) this.#saved.delete(key);
    this.#forgetEmpty(life);
  }

  /** Forgets a life without pods, but remembers a namespace that is ending: pods may still be added to it. */
  #forgetEmpty(life: OwnLife): void {
    if (life.pods.size > 0) return;
    if (life.number !== undefined) this.#parts.store.remove(life.number);
    life.number = undefined;
    this.#own.delete(life);
    if (life.phase !== "ending" && this.#lives.get(life.namespace) === life) this.#lives.delete(life.namespace);
  }

  #forgetOld(): void {
    const oldest = this.#parts.clock.now() - SEEN_LATE_MILLISECONDS;
    for (const [key, { at }] of this.#recent) {
      if (at >= oldest) return this.#forgetLater(at - oldest);
      this.#forgetRecent(key);
    }
  }

  /** Sets a timer. Without it, the last ones would stay until the next deletion, which may be weeks away. */
  #forgetLater(milliseconds: number): void {
    if (this.#isWaiting) return;
    this.#isWaiting = true;
    this.#parts.clock.after(Math.floor(milliseconds) + 1, () => {
      this.#isWaiting = false;
      this.#forgetOld();
    });
  }
}

function newLife(namespace: string): OwnLife {
  return { namespace, retained: new Map(), isUnknown: false, phase: "active", pods: new Set(), number: undefined };
}

/** Returns the bytes of the room that a deleted policy takes: packed it takes fewer, but its pods may get it again. */
function sizeOf({ size }: PackedPolicy): number {
  return size + ENTRY_BYTES;
}
