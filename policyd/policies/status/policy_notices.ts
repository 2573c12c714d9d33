import type { ClusterNetworkPolicy, NetworkPolicy, ObjectChange } from "../../../objects/model.ts";
import { isShadow, shadowProblem } from "../../../objects/shadow_annotation.ts";
import type { ObjectConsumer } from "../../component.ts";
import type { NoticeSink } from "../../events/notice.ts";
import type { Cancel, Clock } from "../../lib/clock.ts";
import type { Logger } from "../../log/logger.ts";
import { policyProblems } from "../compile/compile_rules.ts";

/** The number of NetworkPolicies in each state. */
export type PolicyStates = Readonly<Record<PolicyState, number>>;

export type PolicyState =
  /** Enforced as it is written, as far as it could be read. */
  | "enforced"
  /** It allows less than it says: pods that it isolates stay isolated. */
  | "restricted"
  /** It is only tried out. */
  | "shadow"
  /** The configuration enforces no policies. */
  | "off";

export interface PolicyNoticesParts {
  readonly logger: Logger;
  readonly events: NoticeSink;
  readonly isEnforced: boolean;
  /**
   * Returns, by the keys of policies, why they currently allow less than they say although that does not follow from the
   * policy itself; none when absent.
   */
  readonly restrictions?: () => ReadonlyMap<string, ReadonlySet<string>>;
  /** The clock, and whether the kernel has the rules of all policies that the daemon knows; absent if it never has. */
  readonly progress?: { readonly clock: Clock; readonly isInForce: () => boolean };
}

/** The standing of a policy on this node. */
export interface PolicyStanding {
  readonly kind: "NetworkPolicy" | "ClusterNetworkPolicy";
  readonly key: string;
  /** The generation that the daemon knows. */
  readonly generation: number;
  /** The generation whose rules are in force; undefined before the first. */
  readonly inForce: number | undefined;
  /** Since when that is so, in milliseconds since 1970. */
  readonly since: number | undefined;
  readonly state: PolicyState;
  /** Why it is not in force as it is written. */
  readonly problems: readonly string[];
}

interface Known extends Pick<PolicyStanding, "inForce" | "since" | "state" | "problems"> {
  readonly policy: NetworkPolicy | ClusterNetworkPolicy;
}

/** Milliseconds between two checks whether a change is in force. */
const LOOK_MILLISECONDS = 20;

/**
 * Reports the state of policies on this node: once that they are in force or are not enforced (POL-53), the problems of
 * each policy that is not in force as it is written, each once for as long as it lasts, and which generation of each
 * policy is in force, and since when.
 */
export class PolicyNotices implements ObjectConsumer {
  readonly #parts: PolicyNoticesParts;
  /** By kind and key. */
  readonly #policies = new Map<string, Known>();
  /** The policies whose generation is not in force: a change of a pod need not go through thousands of others. */
  readonly #pending = new Set<string>();
  readonly #restrictions: () => ReadonlyMap<string, ReadonlySet<string>>;
  /** The restrictions that were reported and still last. */
  #reported: ReadonlyMap<string, ReadonlySet<string>> = new Map();
  #isSynced = false;
  #isInForce = false;
  #look: Cancel | undefined;

  constructor(parts: PolicyNoticesParts) {
    this.#parts = parts;
    this.#restrictions = parts.restrictions ?? (() => new Map());
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
    if (this.#parts.isEnforced) return;
    const networkPolicies = [...this.#networkPolicies()].length;
    this.#parts.logger.warn("NetworkPolicy and ClusterNetworkPolicy are not enforced on this node", {
      because: "policies: false",
      networkPolicies,
      clusterNetworkPolicies: this.#policies.size - networkPolicies,
    });
  }

  async stop(): Promise<void> {
    this.#look?.();
  }

  /** Reports that the kernel has the desired state. */
  rulesInForce(): void {
    const { logger, isEnforced } = this.#parts;
    this.#tellRestrictions();
    if (!isEnforced || !this.#isSynced || this.#isInForce) return;
    this.#isInForce = true;
    const { enforced, restricted, shadow } = this.states();
    logger.info("NetworkPolicy and ClusterNetworkPolicy are in force on this node", {
      networkPolicies: enforced + restricted,
      inShadow: shadow,
      clusterNetworkPolicies: this.#policies.size - enforced - restricted - shadow,
    });
  }

  /** Whether policies have been put in force since this daemon started. */
  get isInForce(): boolean {
    return this.#isInForce;
  }

  states(): PolicyStates {
    const states = { enforced: 0, restricted: 0, shadow: 0, off: 0 };
    const restrictions = this.#restrictions();
    for (const { policy, state } of this.#networkPolicies()) {
      states[state === "enforced" && restrictions.has(policy.key) ? "restricted" : state]++;
    }
    return states;
  }

  /** Returns all policies by their kinds and names. */
  all(): readonly PolicyStanding[] {
    const restrictions = this.#restrictions();
    const sorted = [...this.#policies].sort(([a], [b]) => (a < b ? -1 : 1));
    return sorted.map(([, { policy, inForce, since, state, problems }]): PolicyStanding => {
      const { kind, key, generation } = policy;
      const reasons = kind === "NetworkPolicy" ? [...(restrictions.get(key) ?? [])] : [];
      const isRestricted = state === "enforced" && reasons.length > 0;
      const standing = { state: isRestricted ? "restricted" : state, problems: [...problems, ...reasons] } as const;
      return { kind, key, generation, inForce, since, ...standing };
    });
  }

  problems(): readonly string[] {
    const found = [...this.#networkPolicies()].flatMap(({ policy, problems }) =>
      problems.map((problem) => `NetworkPolicy ${policy.key}: ${problem}`),
    );
    return this.#parts.isEnforced ? found : ["policies: false: no policy is enforced on this node", ...found];
  }

  *#networkPolicies(): Iterable<Known & { readonly policy: NetworkPolicy }> {
    for (const known of this.#policies.values()) {
      const { policy } = known;
      if (policy.kind === "NetworkPolicy") yield { ...known, policy };
    }
  }

  #tellRestrictions(): void {
    const restrictions = this.#restrictions();
    for (const [key, reasons] of restrictions) {
      const policy = this.#policies.get(idOf("NetworkPolicy", key))?.policy;
      for (const reason of reasons) {
        if (policy?.kind === "NetworkPolicy" && this.#reported.get(key)?.has(reason) !== true) {
          this.#tell(policy, reason);
        }
      }
    }
    this.#reported = restrictions;
  }

  #tell(policy: NetworkPolicy, reason: string): void {
    const { logger, events } = this.#parts;
    logger.warn("NetworkPolicy is not in force as written", { policy: policy.key, reason }, policy.namespace);
    events.tell({ regarding: policy, reason: "PolicyNotInForce", note: `NetworkPolicy ${policy.key}: ${reason}` });
  }

  /** Returns what is known after a change. An annotation's change keeps the generation, which is then not in force. */
  #changed(policy: NetworkPolicy | ClusterNetworkPolicy): Known {
    const before = this.#policies.get(idOf(policy.kind, policy.key));
    const isOlder = before?.inForce !== undefined && before.inForce < policy.generation;
    const progress = { inForce: isOlder ? before.inForce : undefined, since: isOlder ? before.since : undefined };
    const { isEnforced } = this.#parts;
    if (policy.kind === "ClusterNetworkPolicy") {
      return { policy, ...progress, state: isEnforced ? "enforced" : "off", problems: [] };
    }
    const uncompiled = isEnforced ? policyProblems(policy) : [];
    const annotation = shadowProblem(policy);
    const problems = annotation === undefined ? uncompiled : [...uncompiled, annotation];
    for (const reason of problems) if (before?.problems.includes(reason) !== true) this.#tell(policy, reason);
    const ofEnforced = isShadow(policy) ? "shadow" : uncompiled.length > 0 ? "restricted" : "enforced";
    return { policy, ...progress, state: isEnforced ? ofEnforced : "off", problems };
  }

  #plan(): void {
    const { progress } = this.#parts;
    if (progress === undefined || !this.#isSynced || this.#look !== undefined || this.#pending.size === 0) return;
    this.#look = progress.clock.after(LOOK_MILLISECONDS, () => {
      this.#look = undefined;
      if (progress.isInForce()) this.#enter(progress.clock.time());
      this.#plan();
    });
  }

  /** Notes that the generations of all policies are in force. */
  #enter(since: number): void {
    for (const id of this.#pending) {
      const known = this.#policies.get(id);
      if (known !== undefined) this.#policies.set(id, { ...known, inForce: known.policy.generation, since });
    }
    this.#pending.clear();
  }
}

function idOf(kind: PolicyStanding["kind"], key: string): string {
  return `${kind} ${key}`;
}
