import type { NetworkPolicy } from "../cluster/model.ts";
import { isShadow, shadowProblem } from "../cluster/shadow.ts";
import type { Dataplane } from "../dataplane.ts";
import type { NoticeSink } from "../events/notice.ts";
import type { Logger } from "../log/logger.ts";
import type { ObjectChange } from "../source/object_source.ts";
import { policyProblems } from "./compile/compile_rules.ts";

/** How many NetworkPolicies there are in each state. */
export type PolicyStates = Readonly<Record<PolicyState, number>>;

export type PolicyState =
  /** As it is written, as far as it could be read. */
  | "enforced"
  /** It allows less than it says: what it isolates stays isolated. */
  | "restricted"
  /** Only tried out. */
  | "shadow"
  /** The configuration has none enforced. */
  | "off";

export interface PolicyNoticesParts {
  readonly logger: Logger;
  readonly events: NoticeSink;
  /** Whether the configuration has policies enforced. */
  readonly isEnforced: boolean;
}

interface Known {
  readonly state: PolicyState;
  readonly problems: readonly string[];
}

/**
 * Says what becomes of policies on this node: once that they are in force, or that they are not (POL-53), and of each
 * policy that is not in force as it is written what is wrong, once for as long as it is so.
 */
export class PolicyNotices implements Dataplane {
  readonly #parts: PolicyNoticesParts;
  readonly #networkPolicies = new Map<string, Known>();
  readonly #clusterPolicies = new Set<string>();
  #isSynced = false;
  #isInForce = false;

  constructor(parts: PolicyNoticesParts) {
    this.#parts = parts;
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

  /** The kernel has all that is wanted. */
  rulesInForce(): void {
    const { logger, isEnforced } = this.#parts;
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
    for (const { state } of this.#networkPolicies.values()) states[state]++;
    return states;
  }

  async register(): Promise<void> {}

  async unregister(): Promise<void> {}

  problems(): readonly string[] {
    const found = [...this.#networkPolicies].flatMap(([key, { problems }]) =>
      problems.map((problem) => `NetworkPolicy ${key}: ${problem}`),
    );
    return this.#parts.isEnforced ? found : ["policies: false: no policy is enforced on this node", ...found];
  }

  async stop(): Promise<void> {}

  #set(policy: NetworkPolicy): void {
    const { logger, events, isEnforced } = this.#parts;
    const uncompiled = isEnforced ? policyProblems(policy) : [];
    const annotation = shadowProblem(policy);
    const problems = annotation === undefined ? uncompiled : [...uncompiled, annotation];
    const told = this.#networkPolicies.get(policy.key)?.problems ?? [];
    for (const reason of problems) {
      if (told.includes(reason)) continue;
      logger.warn("NetworkPolicy not in force as it is", { policy: policy.key, reason });
      events.tell({ regarding: policy, reason: "PolicyNotInForce", note: `NetworkPolicy ${policy.key}: ${reason}` });
    }
    const ofEnforced = isShadow(policy) ? "shadow" : uncompiled.length > 0 ? "restricted" : "enforced";
    this.#networkPolicies.set(policy.key, { state: isEnforced ? ofEnforced : "off", problems });
  }
}
