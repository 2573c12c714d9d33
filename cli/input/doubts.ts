import { DIRECTIONS } from "../../objects/semantics/policies/flow.ts";
import type { ClusterNetworkPolicy, Labels, NamespacedPods, NetworkPolicy, Pod } from "../../objects/model.ts";
import { selects } from "../../objects/semantics/policies/selector.ts";
import type { Manifest } from "./manifests.ts";
import { locationText } from "./place.ts";
import { shortList } from "../../objects/printable.ts";
import { nameLabel } from "../../objects/name.ts";

/** The most names in a line. */
const MOST_NAMED = 5;

/** Returns why an answer may be empty: there are no objects, or no pods. */
export function emptiness(manifests: readonly Manifest[]): readonly string[] {
  if (manifests.length === 0) {
    return ["nothing was read on which an answer depends: give policies, and the pods or workloads that they are for"];
  }
  const hasPods = manifests.some(({ object }) => object.kind === "Pod");
  return hasPods ? [] : ["no pods and no workloads were read: policies select nobody, and nobody sends anything"];
}

/**
 * Returns what makes an answer doubtful, a line each: {@link emptiness}, policies that select none of the pods, and
 * ClusterNetworkPolicies of one priority that contradict each other.
 *
 * @param reported policies that are reported elsewhere to select nothing
 */
export function doubtsOf(
  manifests: readonly Manifest[],
  reported: ReadonlySet<Manifest> = new Set<Manifest>(),
): readonly string[] {
  const empty = emptiness(manifests);
  if (empty.length > 0) return empty;
  const cluster = new SelectedPods(manifests);
  return [
    ...selectingNothing(
      manifests.filter((one) => !reported.has(one)),
      cluster,
    ),
    ...contradictions(manifests, cluster),
  ];
}

function selectingNothing(manifests: readonly Manifest[], cluster: SelectedPods): readonly string[] {
  const names = manifests.flatMap(({ object, file, line }) => {
    const isPolicy = object.kind === "NetworkPolicy" || object.kind === "ClusterNetworkPolicy";
    return isPolicy && !cluster.hasAny(object) ? [`${object.kind} ${object.key} (${locationText(file, line)})`] : [];
  });
  if (names.length === 0) return [];
  const verb = names.length === 1 ? "selects" : "select";
  return [`${shortList(names, MOST_NAMED)} ${verb} none of the pods that were read`];
}

/** Returns, for each policy, the first earlier one with the same rank that contradicts it for a common pod. */
function contradictions(manifests: readonly Manifest[], cluster: SelectedPods): readonly string[] {
  const policies = manifests.flatMap(({ object, file, line }) =>
    object.kind === "ClusterNetworkPolicy" ? [{ policy: object, place: locationText(file, line) }] : [],
  );
  const ties = Map.groupBy(policies, ({ policy: { tier, priority } }) => `tier ${tier} and priority ${priority}`);
  return [...ties].flatMap(([rank, tied]) =>
    tied.flatMap((one, i) => {
      const other = tied
        .slice(0, i)
        .find(({ policy }) => differ(policy, one.policy) && meet(policy, one.policy, cluster));
      if (other === undefined) return [];
      const names = [other, one].map(({ policy, place }) => `${policy.key} (${place})`).join(" and ");
      return [
        `ClusterNetworkPolicies ${names} have ${rank}, contradict each other and are for the same pods: which one counts is undefined`,
      ];
    }),
  );
}

/** Returns whether the policies have rules of one direction with different actions. */
function differ(a: ClusterNetworkPolicy, b: ClusterNetworkPolicy): boolean {
  return DIRECTIONS.some((direction) =>
    a[direction].some(({ action }) => b[direction].some((rule) => rule.action !== action)),
  );
}

function meet(a: ClusterNetworkPolicy, b: ClusterNetworkPolicy, cluster: SelectedPods): boolean {
  const own = new Set(cluster.of(a));
  for (const pod of cluster.of(b)) if (own.has(pod)) return true;
  return false;
}

/** The pods of some objects, indexed for the selectors of policies. */
class SelectedPods {
  readonly #namespaces: ReadonlyMap<string, Labels>;
  readonly #pods: ReadonlyMap<string, readonly Pod[]>;

  constructor(manifests: readonly Manifest[]) {
    const objects = manifests.map(({ object }) => object);
    const namespaces = objects.flatMap((one) => (one.kind === "Namespace" ? [[one.name, one.labels] as const] : []));
    this.#namespaces = new Map(namespaces);
    const pods = objects.flatMap((object) => (object.kind === "Pod" ? [object] : []));
    this.#pods = Map.groupBy(pods, ({ namespace }) => namespace);
  }

  /** Yields the pods that a policy selects. */
  *of(policy: NetworkPolicy | ClusterNetworkPolicy): Generator<Pod> {
    if (policy.kind === "ClusterNetworkPolicy") yield* this.#subjects(policy.subject);
    else for (const pod of this.#own(policy.namespace)) if (selects(policy.podSelector, pod.labels)) yield pod;
  }

  hasAny(policy: NetworkPolicy | ClusterNetworkPolicy): boolean {
    return this.of(policy).next().done !== true;
  }

  *#subjects({ namespaceSelector, podSelector }: NamespacedPods): Generator<Pod> {
    for (const namespace of this.#pods.keys()) {
      const labels = this.#namespaces.get(namespace) ?? nameLabel(namespace);
      if (namespaceSelector !== undefined && !selects(namespaceSelector, labels)) continue;
      for (const pod of this.#own(namespace)) {
        if (podSelector === undefined || selects(podSelector, pod.labels)) yield pod;
      }
    }
  }

  #own(namespace: string): readonly Pod[] {
    return this.#pods.get(namespace) ?? [];
  }
}
