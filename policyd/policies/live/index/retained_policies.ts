import type { Clock } from "../../../lib/clock.ts";
import type { Namespace, NetworkPolicy } from "../../../../objects/model.ts";
import { RECENT_BYTES } from "../../../bounds.ts";
import { Budget, type BudgetBounds } from "../../../lib/budget.ts";
import { deserialize, serialize } from "node:v8";
import { deflateRawSync, inflateRawSync } from "node:zlib";

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
  /** Whether another namespace has its name by now. */
  readonly isFormer: boolean;
}

interface OwnLife extends NamespaceLife {
  readonly retained: Map<string, NetworkPolicy>;
  isUnknown: boolean;
  isFormer: boolean;
  /** "ending" until its object is gone. */
  phase: "active" | "ending" | "gone";
  /** The keys of attachments. */
  readonly pods: Set<string>;
}

interface Deletion {
  readonly namespace: string;
  /** Undefined where there was no room. */
  readonly packed: PackedPolicy | undefined;
  readonly at: number;
}

export interface RetainedParts {
  readonly clock: Pick<Clock, "now" | "after">;
  /** Whether an attachment was there before this daemon; undefined where a Namespace that exists may not be reported. */
  readonly isEarlier: ((key: string) => boolean) | undefined;
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
 * A daemon that finds an ending namespace cannot know which policies are gone already, nor which ones there were in a
 * namespace that is gone. It leaves their pods closed.
 */
export class RetainedPolicies {
  readonly #parts: RetainedParts;
  readonly #lives = new Map<string, OwnLife>();
  readonly #own = new Map<NamespaceLife, OwnLife>();
  /**
   * Recently deleted policies of namespaces that were not ending, the oldest first. Those of a namespace for which there
   * was no room have one entry, by its name.
   */
  readonly #recent = new Map<string, Deletion>();
  readonly #room: Budget;
  /** The uids of the existing namespaces. */
  readonly #uids = new Map<string, string>();
  #hasBegun = false;
  /** Whether the timer that forgets the oldest is set. */
  #isWaiting = false;

  constructor(parts: RetainedParts) {
    this.#parts = parts;
    this.#room = new Budget(parts.roomBounds ?? RECENT_BYTES);
  }

  /** Begins when all objects have arrived once: this daemon sees whatever ends from now on. */
  begin(): void {
    if (this.#hasBegun) return;
    this.#hasBegun = true;
    for (const life of this.#own.values()) this.#giveUpLost(life);
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
    const life = this.#isLost(namespace, key) ? lostLife(namespace) : this.#life(namespace);
    this.#own.set(life, life);
    life.pods.add(key);
    return life;
  }

  /** Removes a pod from its life; does nothing for a pod without a namespace. */
  leave(life: NamespaceLife | undefined, key: string): void {
    const own = life && this.#own.get(life);
    if (own === undefined) return;
    own.pods.delete(key);
    this.#forgetEmpty(own);
  }

  /** Records a Namespace, undefined for one that is gone. @returns whether this changes which policies its pods keep */
  namespaceChanged(name: string, namespace: Pick<Namespace, "isTerminating" | "uid"> | undefined): boolean {
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
    life.isFormer = true;
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
    this.#lives.get(namespace)?.retained.delete(key);
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

  /** Whether the namespace of an earlier daemon's pod is gone, and whatever its policies were. */
  #isLost(namespace: string, key: string): boolean {
    const isKnown = this.#uids.has(namespace) || (this.#lives.get(namespace)?.phase ?? "active") !== "active";
    return this.#hasBegun && !isKnown && this.#parts.isEarlier?.(key) === true;
  }

  /** Gives up a life whose pods were added before it was known that their namespace is gone; they have no rules yet. */
  #giveUpLost(life: OwnLife): void {
    const { namespace, pods } = life;
    if (![...pods].some((key) => this.#isLost(namespace, key))) return;
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

  /** Forgets a life without pods, but remembers a namespace that is ending: pods may still be added to it. */
  #forgetEmpty(life: OwnLife): void {
    if (life.pods.size > 0) return;
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

/** Returns the life of a namespace that retains no policies. */
export function plainLife(namespace: string): NamespaceLife & Pick<OwnLife, "retained"> {
  return { namespace, retained: new Map(), isUnknown: false, isFormer: false };
}

function newLife(namespace: string): OwnLife {
  return { ...plainLife(namespace), phase: "active", pods: new Set() };
}

/** Returns the life of a pod whose namespace was gone before this daemon started. */
function lostLife(namespace: string): OwnLife {
  return { ...newLife(namespace), isUnknown: true, phase: "gone" };
}

/** Returns the bytes of the room that a deleted policy takes: packed it takes fewer, but its pods may get it again. */
function sizeOf({ size }: PackedPolicy): number {
  return size + ENTRY_BYTES;
}

/** Fast rather than small: lists of addresses shrink to an eighth even so. */
const LEVEL = 1;

/** A policy that may be needed again, in compressed form outside of the heap. */
export interface PackedPolicy {
  readonly bytes: Uint8Array;
  /** The number of bytes before. */
  readonly size: number;
}

/** Packs a policy, whose lists of addresses take several times as much in the heap. */
export function packPolicy(policy: NetworkPolicy): PackedPolicy {
  const plain = serialize(policy);
  // A copy: the buffer of the compression is larger.
  return { bytes: Uint8Array.from(deflateRawSync(plain, { level: LEVEL })), size: plain.length };
}

/** Returns the policy as it was, but not frozen. @throws Error if something else was packed, which is a bug */
export function unpackPolicy({ bytes }: PackedPolicy): NetworkPolicy {
  const policy: unknown = deserialize(inflateRawSync(bytes));
  if (!isPolicy(policy)) throw new Error("a retained NetworkPolicy cannot be read");
  return policy;
}

/** Returns whether a value is a policy, as all that was packed: it has passed the gate. */
function isPolicy(value: unknown): value is NetworkPolicy {
  return typeof value === "object" && value !== null && "kind" in value && value.kind === "NetworkPolicy";
}
