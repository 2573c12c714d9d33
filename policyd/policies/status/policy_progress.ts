import type { ClusterNetworkPolicy, NetworkPolicy, ObjectChange } from "../../../objects/model.ts";
import type { Cancel, Clock } from "../../lib/clock.ts";
import type { ObjectConsumer } from "../../component.ts";

/** The progress of a policy on this node. */
export interface Progress {
  readonly kind: "NetworkPolicy" | "ClusterNetworkPolicy";
  readonly key: string;
  /** The generation that the daemon knows. */
  readonly generation: number;
  /** The generation whose rules are in force; undefined before the first. */
  readonly inForce: number | undefined;
  /** Since when that is so, in milliseconds since 1970. */
  readonly since: number | undefined;
}

export interface PolicyProgressParts {
  readonly clock: Clock;
  /** Whether the kernel has the rules of all policies that the daemon knows; undefined if it enforces none. */
  readonly isInForce: (() => boolean) | undefined;
}

/** Milliseconds between two checks whether a change is in force. */
const LOOK_MILLISECONDS = 20;

/** Follows which generation of each policy is in force on this node, and since when. */
export class PolicyProgress implements ObjectConsumer {
  readonly #parts: PolicyProgressParts;
  readonly #policies = new Map<string, Progress>();
  /** The policies whose generation is not in force: a change of a pod need not go through thousands of others. */
  readonly #pending = new Set<string>();
  #isSynced = false;
  #look: Cancel | undefined;

  constructor(parts: PolicyProgressParts) {
    this.#parts = parts;
  }

  /** Returns all policies by their kinds and names. */
  all(): readonly Progress[] {
    return [...this.#policies].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, progress]) => progress);
  }

  apply(changes: readonly ObjectChange[]): void {
    for (const change of changes) {
      const { kind, key } = change;
      if (kind !== "NetworkPolicy" && kind !== "ClusterNetworkPolicy") continue;
      const id = idOf(kind, key);
      if (change.type === "delete") {
        this.#policies.delete(id);
        this.#pending.delete(id);
      } else if (change.object.kind === kind) {
        this.#policies.set(id, this.#changed(change.object));
        this.#pending.add(id);
      }
    }
    this.#plan();
  }

  synced(): void {
    this.#isSynced = true;
    this.#plan();
  }

  async stop(): Promise<void> {
    this.#look?.();
  }

  /** Returns the progress after a change. An annotation's change keeps the generation, which is then not in force. */
  #changed({ kind, key, generation }: NetworkPolicy | ClusterNetworkPolicy): Progress {
    const before = this.#policies.get(idOf(kind, key));
    const isOlder = before?.inForce !== undefined && before.inForce < generation;
    return {
      kind,
      key,
      generation,
      inForce: isOlder ? before.inForce : undefined,
      since: isOlder ? before.since : undefined,
    };
  }

  #plan(): void {
    const { clock, isInForce } = this.#parts;
    if (isInForce === undefined || !this.#isSynced || this.#look !== undefined || this.#pending.size === 0) return;
    this.#look = clock.after(LOOK_MILLISECONDS, () => {
      this.#look = undefined;
      if (isInForce()) this.#enter(clock.time());
      this.#plan();
    });
  }

  /** Notes that the generations of all policies are in force. */
  #enter(since: number): void {
    for (const id of this.#pending) {
      const progress = this.#policies.get(id);
      if (progress !== undefined) this.#policies.set(id, { ...progress, inForce: progress.generation, since });
    }
    this.#pending.clear();
  }
}

function idOf(kind: Progress["kind"], key: string): string {
  return `${kind} ${key}`;
}
