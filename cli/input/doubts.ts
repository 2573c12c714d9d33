import { DIRECTIONS } from "../../objects/semantics/policies/flow.ts";
import type { ClusterNetworkPolicy, ClusterObject } from "../../objects/model.ts";
import { IdentityTable } from "../../objects/semantics/policies/identity.ts";
import { type Members, PeerSelection } from "../../objects/semantics/policies/peer_selection.ts";
import type { Manifest } from "./manifests.ts";
import { locationText } from "./place.ts";
import { shortList } from "../../objects/printable.ts";

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
  const selected = selections(manifests.map(({ object }) => object));
  const nameOf = ({ object: { key }, file, line }: Manifest): string => `${key} (${locationText(file, line)})`;
  const idle = manifests.filter((one) => selected.get(one.object)?.includes(1) === false && !reported.has(one));
  const ranked = manifests.flatMap((one): readonly Ranked[] => {
    const [policy, subject] = [one.object, selected.get(one.object)];
    return policy.kind === "ClusterNetworkPolicy" && subject !== undefined
      ? [{ policy, subject, name: nameOf(one) }]
      : [];
  });
  return [...selectingNothing(idle.map((one) => `${one.object.kind} ${nameOf(one)}`)), ...contradictions(ranked)];
}

/** Returns the pods that each policy selects, whether it does anything to them or not. */
function selections(objects: readonly ClusterObject[]): ReadonlyMap<ClusterObject, Members> {
  const policies = objects.filter((one) => one.kind === "NetworkPolicy" || one.kind === "ClusterNetworkPolicy");
  const namespaces = objects.filter((one) => one.kind === "Namespace");
  const table = new IdentityTable(new Map(namespaces.map((one) => [one.name, one])), policies);
  for (const one of objects) if (one.kind === "Pod") table.numberOf(one);
  const selection = new PeerSelection(table.all(), new Map());
  const subjectOf = (policy: (typeof policies)[number]): Members =>
    policy.kind === "NetworkPolicy"
      ? selection.pods({ podSelector: policy.podSelector, namespaceSelector: undefined }, policy.namespace)
      : selection.pods(policy.subject, "");
  return new Map(policies.map((policy) => [policy, subjectOf(policy)]));
}

/** A policy with a rank among others, and the pods that it selects. */
interface Ranked {
  readonly policy: ClusterNetworkPolicy;
  readonly subject: Members;
  readonly name: string;
}

function selectingNothing(names: readonly string[]): readonly string[] {
  if (names.length === 0) return [];
  const verb = names.length === 1 ? "selects" : "select";
  return [`${shortList(names, MOST_NAMED)} ${verb} none of the pods that were read`];
}

/** Returns, for each policy, the first earlier one with the same rank that contradicts it for a common pod. */
function contradictions(policies: readonly Ranked[]): readonly string[] {
  const ties = Map.groupBy(policies, ({ policy: { tier, priority } }) => `tier ${tier} and priority ${priority}`);
  return [...ties].flatMap(([rank, tied]) =>
    tied.flatMap((one, i) => {
      const other = tied.slice(0, i).find((earlier) => differ(earlier.policy, one.policy) && meet(earlier, one));
      if (other === undefined) return [];
      return [
        `ClusterNetworkPolicies ${other.name} and ${one.name} have ${rank}, contradict each other and are for the same pods: which one counts is undefined`,
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

/** Returns whether the policies select a common pod. */
function meet({ subject }: Ranked, other: Ranked): boolean {
  return subject.some((isIn, number) => isIn === 1 && other.subject[number] === 1);
}
