import type { Kind, NetworkPolicy, ObjectChange } from "../../objects/model.ts";
import { isShadow, shadowProblem } from "../../objects/shadow_annotation.ts";
import type { ObjectConsumer } from "../component.ts";
import type { NoticeSink } from "../events/notice.ts";
import type { Logger } from "../log/logger.ts";
import { policyProblems } from "./compile/compile_rules.ts";

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
}

interface Known {
  readonly policy: NetworkPolicy;
  readonly state: PolicyState;
  readonly problems: readonly string[];
}

/** The state of a policy, and why it is not in force as it is written. */
export interface PolicyStanding {
  readonly state: PolicyState;
  readonly problems: readonly string[];
}

/**
 * Reports the state of policies on this node: once that they are in force or are not enforced (POL-53), and the
 * problems of each policy that is not in force as it is written, each once for as long as it lasts.
 */
export class PolicyNotices implements ObjectConsumer {
  readonly #parts: PolicyNoticesParts;
  readonly #networkPolicies = new Map<string, Known>();
  readonly #clusterPolicies = new Set<string>();
  readonly #restrictions: () => ReadonlyMap<string, ReadonlySet<string>>;
  /** The restrictions that were reported and still last. */
  #reported: ReadonlyMap<string, ReadonlySet<string>> = new Map();
  #isSynced = false;
  #isInForce = false;

  constructor(parts: PolicyNoticesParts) {
    this.#parts = parts;
    this.#restrictions = parts.restrictions ?? (() => new Map());
  }

  apply(changes: readonly ObjectChange[]): void {
    for (const change of changes) {
      const { kind, key } = change;
      if (kind === "ClusterNetworkPolicy") {
        if (change.type === "set") this.#clusterPolicies.add(key);
        else this.#clusterPolicies.delete(key);
      }
      if (kind !== "NetworkPolicy") continue;
      if (change.type === "delete") this.#networkPolicies.delete(key);
      else if (change.object.kind === kind) this.#set(change.object);
    }
  }

  synced(): void {
    this.#isSynced = true;
    if (this.#parts.isEnforced) return;
    this.#parts.logger.warn("NetworkPolicy and ClusterNetworkPolicy are not enforced on this node", {
      because: "policies: false",
      networkPolicies: this.#networkPolicies.size,
      clusterNetworkPolicies: this.#clusterPolicies.size,
    });
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
      clusterNetworkPolicies: this.#clusterPolicies.size,
    });
  }

  /** Whether policies have been put in force since this daemon started. */
  get isInForce(): boolean {
    return this.#isInForce;
  }

  states(): PolicyStates {
    const states = { enforced: 0, restricted: 0, shadow: 0, off: 0 };
    const restrictions = this.#restrictions();
    for (const [key, { state }] of this.#networkPolicies) {
      states[state === "enforced" && restrictions.has(key) ? "restricted" : state]++;
    }
    return states;
  }

  /** Returns a function that returns the present state of a policy, and why it is not in force as it is written. */
  stateReader(): (kind: Kind, key: string) => PolicyStanding {
    const { isEnforced } = this.#parts;
    const restrictions = this.#restrictions();
    return (kind, key) => {
      const known = kind === "NetworkPolicy" ? this.#networkPolicies.get(key) : undefined;
      if (known === undefined) return { state: isEnforced ? "enforced" : "off", problems: [] };
      const { state, problems } = known;
      const reasons = [...(restrictions.get(key) ?? [])];
      const isRestricted = state === "enforced" && reasons.length > 0;
      return { state: isRestricted ? "restricted" : state, problems: [...problems, ...reasons] };
    };
  }

  problems(): readonly string[] {
    const found = [...this.#networkPolicies].flatMap(([key, { problems }]) =>
      problems.map((problem) => `NetworkPolicy ${key}: ${problem}`),
    );
    return this.#parts.isEnforced ? found : ["policies: false: no policy is enforced on this node", ...found];
  }

  #tellRestrictions(): void {
    const restrictions = this.#restrictions();
    for (const [key, reasons] of restrictions) {
      const known = this.#networkPolicies.get(key);
      for (const reason of reasons) {
        if (known !== undefined && this.#reported.get(key)?.has(reason) !== true) this.#tell(known.policy, reason);
      }
    }
    this.#reported = restrictions;
  }

  #tell(policy: NetworkPolicy, reason: string): void {
    const { logger, events } = this.#parts;
    logger.warn("NetworkPolicy is not in force as written", { policy: policy.key, reason }, policy.namespace);
    events.tell({ regarding: policy, reason: "PolicyNotInForce", note: `NetworkPolicy ${policy.key}: ${reason}` });
  }

  #set(policy: NetworkPolicy): void {
    const { isEnforced } = this.#parts;
    const uncompiled = isEnforced ? policyProblems(policy) : [];
    const annotation = shadowProblem(policy);
    const problems = annotation === undefined ? uncompiled : [...uncompiled, annotation];
    const reported = this.#networkPolicies.get(policy.key)?.problems ?? [];
    for (const reason of problems) {
      if (!reported.includes(reason)) this.#tell(policy, reason);
    }
    const ofEnforced = isShadow(policy) ? "shadow" : uncompiled.length > 0 ? "restricted" : "enforced";
    this.#networkPolicies.set(policy.key, { policy, state: isEnforced ? ofEnforced : "off", problems });
  }
}
