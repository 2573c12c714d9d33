import type { Pod } from "../../../../objects/model.ts";
import type { Slices } from "../../../lib/sliced_work.ts";
import { compileProfile, compileProfileAhead } from "../../compile/compile_profile.ts";
import type { SelectablePod } from "../../compile/peer_groups.ts";
import { DIRECTIONS, type ProfilesByDirection } from "../../compile/profile.ts";
import type { ActiveProfiles } from "../sets/active_profiles.ts";
import type { ProfiledPod } from "./local_pods.ts";
import type { MemberIndex } from "../index/member_index.ts";
import type { PolicyLists, Selection } from "../index/policy_lists.ts";
import type { NamespaceLife } from "../index/retained_policies.ts";

export interface PodPoliciesParts {
  readonly lists: PolicyLists;
  readonly members: MemberIndex;
  readonly profiles: Pick<ActiveProfiles, "prepare">;
  /** Each pod's Namespace arrives sooner or later, as from an API server; files may omit Namespaces (POL-24). */
  readonly areNamespacesReported: boolean;
}

/** Computes which policies apply to each pod of this node, from the current objects. */
export class PodPolicies {
  readonly #parts: PodPoliciesParts;

  constructor(parts: PodPoliciesParts) {
    this.#parts = parts;
  }

  /** The pod as selectors see it; undefined while its Pod or its Namespace is not known. */
  subjectOf({ pod }: ProfiledPod): SelectablePod | undefined {
    return pod === undefined || !this.#hasLabels(pod) ? undefined : this.#selectable(pod);
  }

  /**
   * The policies that select a pod. A pod that was attached before its new namespace was seen is in the former one's
   * life; its Pod is there, and those of the former namespace are gone. Without Pods nobody can tell them apart.
   */
  selectionOf(pod: Pod, life: NamespaceLife): Selection {
    const { lists, members } = this.#parts;
    return lists.selectionOf(this.#selectable(pod), life, life.isFormer && members.pod(pod.key) !== pod);
  }

  /** The profiles that should apply to the pod; undefined while they are not known. */
  profilesOf(local: ProfiledPod): ProfilesByDirection | undefined {
    const { lists } = this.#parts;
    const { life, pod } = local;
    if (life?.isUnknown === true) return undefined;
    // Only ClusterNetworkPolicies select by the labels of a namespace.
    const isReported = pod !== undefined && (this.#hasLabels(pod) || !lists.hasNamespaceSubjects);
    if (life === undefined || (!isReported && !lists.couldSelect(life))) {
      return { egress: undefined, ingress: undefined };
    }
    if (!isReported) return undefined;
    const { networkPolicies, clusterPolicies } = this.selectionOf(pod, life);
    return {
      egress: compileProfile("egress", networkPolicies, clusterPolicies),
      ingress: compileProfile("ingress", networkPolicies, clusterPolicies),
    };
  }

  /**
   * Does most of the work of {@link profilesOf}, and of holding these profiles, in slices. Whatever changes meanwhile
   * is computed when the profiles are requested.
   */
  *ahead(local: ProfiledPod): Slices<void> {
    const { profiles } = this.#parts;
    const { life, pod } = local;
    if (life === undefined || pod === undefined || !this.#hasLabels(pod)) return;
    const { networkPolicies } = this.selectionOf(pod, life);
    for (const direction of DIRECTIONS) yield* compileProfileAhead(direction, networkPolicies);
    const found = this.profilesOf(local);
    for (const direction of DIRECTIONS) {
      const profile = found?.[direction];
      if (profile !== undefined) yield* profiles.prepare(profile);
    }
  }

  #hasLabels({ namespace }: Pod): boolean {
    const { areNamespacesReported, members } = this.#parts;
    return !areNamespacesReported || members.groups.isNamespaceReported(namespace);
  }

  #selectable({ namespace, labels }: Pod): SelectablePod {
    return { namespace, labels, namespaceLabels: this.#parts.members.groups.namespaceLabels(namespace) };
  }
}
