import type { ClusterNetworkPolicy, NetworkPolicy } from "../../../../objects/model.ts";
import { type SelectablePod, subjectSelects } from "../../compile/peer_groups.ts";
import { isEmptySelector } from "../../compile/selector.ts";
import type { NamespaceLife } from "./retained_policies.ts";

/** Policies of one pod. */
export interface Selection {
  readonly networkPolicies: readonly NetworkPolicy[];
  readonly clusterPolicies: readonly ClusterNetworkPolicy[];
}

/** The existing policies, by where they select. */
export class PolicyLists {
  readonly #byNamespace = new Map<string, Map<string, NetworkPolicy>>();
  readonly #clusterPolicies = new Map<string, ClusterNetworkPolicy>();

  /** Records a policy, undefined for one that is gone. @returns its previous version */
  setNetworkPolicy(key: string, policy: NetworkPolicy | undefined): NetworkPolicy | undefined {
    const namespace = key.slice(0, key.indexOf("/"));
    const policies = this.#byNamespace.get(namespace) ?? new Map<string, NetworkPolicy>();
    const before = policies.get(key);
    if (policy === undefined) policies.delete(key);
    else policies.set(key, policy);
    if (policies.size === 0) this.#byNamespace.delete(namespace);
    else this.#byNamespace.set(namespace, policies);
    return before;
  }

  /** Like {@link setNetworkPolicy}. */
  setClusterPolicy(key: string, policy: ClusterNetworkPolicy | undefined): ClusterNetworkPolicy | undefined {
    const before = this.#clusterPolicies.get(key);
    if (policy === undefined) this.#clusterPolicies.delete(key);
    else this.#clusterPolicies.set(key, policy);
    return before;
  }

  get hasClusterPolicies(): boolean {
    return this.#clusterPolicies.size > 0;
  }

  /** Whether a policy selects its subjects by labels of their namespaces. */
  get hasNamespaceSubjects(): boolean {
    for (const { subject } of this.#clusterPolicies.values()) {
      if (!isEmptySelector(subject.namespaceSelector)) return true;
    }
    return false;
  }

  /** Whether any policy could select a pod of which only the namespace is known. */
  couldSelect({ namespace, retained }: NamespaceLife): boolean {
    return this.#clusterPolicies.size > 0 || retained.size > 0 || this.#byNamespace.has(namespace);
  }

  /** The NetworkPolicies of a namespace. */
  in(namespace: string): Iterable<NetworkPolicy> {
    return this.#byNamespace.get(namespace)?.values() ?? [];
  }

  /**
   * The policies that select a pod, including those it retains.
   *
   * @param isFormer whether the pod may be of an earlier namespace with this name: if it retains policies, those of the
   *   present namespace do not select it, since they could open it
   */
  selectionOf(pod: SelectablePod, { namespace, retained }: NamespaceLife, isFormer: boolean): Selection {
    const selects = (policy: NetworkPolicy | ClusterNetworkPolicy): boolean => subjectSelects(policy, pod);
    const own = [...retained.values()].filter(selects);
    const there = isFormer && own.length > 0 ? undefined : this.#byNamespace.get(namespace);
    const kept = own.filter(({ key }) => there?.has(key) !== true);
    return {
      networkPolicies: [...(there?.values() ?? [])].filter(selects).concat(kept),
      clusterPolicies: [...this.#clusterPolicies.values()].filter(selects),
    };
  }
}
