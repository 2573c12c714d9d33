import { familyOf } from "../../../kernel/ip/address.ts";
import type {
  ClusterNetworkPolicy,
  ClusterPolicyPeer,
  LabelSelector,
  NetworkPolicy,
  Pod,
  PodPeer,
  PolicyPeer,
} from "../../../objects/model.ts";
import { fitsPeer } from "../../../objects/semantics/policies/match.ts";
import type { ResolvedEnd } from "../../../objects/semantics/policies/party.ts";
import { selects, requirementsOf } from "../../../objects/semantics/policies/selector.ts";
import type { LintContext, RuleSite } from "./context.ts";
import { nearestLabel, type Suggestion } from "./nearest_label.ts";
import { NAMESPACE_NAME } from "../../../objects/name.ts";

/** The state of a peer among the objects that were read. */
export type PeerState =
  | { readonly type: "something" }
  /** All its pods are in the host's network. */
  | { readonly type: "host network" }
  /** No namespace has the labels, but one has similar ones. */
  | { readonly type: "typo"; readonly suggestion: Suggestion }
  /** No namespace that was read has the labels; others may have them. */
  | { readonly type: "unknown namespace" }
  /** Its namespaces have pods without the labels, and it is for namespaces that were not read, too. */
  | { readonly type: "unread pods" }
  /** Its namespaces have pods, but none with the labels; or there are nodes, and it is for others. */
  | { readonly type: "nothing"; readonly suggestion: Suggestion | undefined };

/** Ends a fix that deletes something: the pods of a CronJob, or of a workload that is scaled to 0, are absent at times. */
export const UNLESS_TO_COME = ", unless its pods are to come";

type Peer = PolicyPeer | ClusterPolicyPeer;

/** A peer of a rule, with its state. */
export interface EvaluatedPeer {
  readonly peer: Peer;
  readonly state: PeerState;
}

const SOMETHING: PeerState = { type: "something" };

/** Returns the peers of a rule with their states; none for a rule without peers. */
export function evaluatedPeers(context: LintContext, { linted, rule, indexed }: RuleSite): readonly EvaluatedPeer[] {
  const peers: readonly Peer[] = rule.peers ?? [];
  const own = ownNamespace(linted.policy);
  return peers.map((peer, i) => {
    const looked = indexed.peers?.[i];
    if (peer.type === "nodes" && looked?.type === "nodes" && looked.names.size === 0 && context.nodes.length > 0) {
      const labels = context.nodes.map((node) => node.labels);
      return { peer, state: { type: "nothing", suggestion: nearestLabel(peer.selector, labels) } };
    }
    const pods = looked === undefined ? undefined : context.podsOf(looked);
    if (peer.type !== "pods" || pods === undefined || pods.length > 0) return { peer, state: SOMETHING };
    return { peer, state: emptyState(context, peer, own) };
  });
}

function emptyState(context: LintContext, peer: PodPeer, own: string): PeerState {
  if (hostPodsOf(context, peer, own).length > 0) return { type: "host network" };
  const names = namespacesOf(context, peer.namespaceSelector, own);
  if (names.size === 0) {
    const suggestion = peer.namespaceSelector && nearestNamespace(context, peer.namespaceSelector);
    return suggestion === undefined ? { type: "unknown namespace" } : { type: "typo", suggestion };
  }
  const there = context.pods.filter(({ namespace }) => names.has(namespace));
  // If a namespace has no pod in the files, nothing is known about its pods.
  if (there.length === 0) return { type: "unknown namespace" };
  const labels = there.map((pod) => pod.labels);
  const suggestion = peer.podSelector && nearestLabel(peer.podSelector, labels);
  if (suggestion === undefined && isOpenEnded(context, peer.namespaceSelector)) return { type: "unread pods" };
  return { type: "nothing", suggestion };
}

/**
 * Returns a suggestion for a namespaceSelector that selects no namespace: a similar label, or the name of a namespace
 * whose labels are known.
 */
export function nearestNamespace(context: LintContext, selector: LabelSelector): Suggestion | undefined {
  const byName = namespaceByName(context, selector);
  return (
    nearestLabel(selector, context.namespaces.values()) ??
    (byName !== undefined && context.store.namespaces.has(byName.name) ? byName.suggestion : undefined)
  );
}

/**
 * Returns the pods whose addresses are, or may be, in a rule's ipBlocks: a pod without an address, as from a template,
 * may get one there.
 */
export function podsOfBlocks({ pods }: LintContext, { indexed }: RuleSite): readonly Pod[] {
  const blocks = (indexed.peers ?? []).filter(({ type }) => type === "addresses");
  if (blocks.length === 0) return [];
  return pods.filter((pod) => {
    const ends = pod.addresses.map((address): ResolvedEnd => {
      const party = { type: "pod", key: pod.key, address } as const;
      return { party, address, family: familyOf(address), pod, subject: undefined, others: [] };
    });
    return ends.length === 0 || ends.some((end) => blocks.some((block) => fitsPeer(block, end)));
  });
}

/** Returns the pods of the host's network that would match a selector. */
export function hostPodsOf(
  context: LintContext,
  { podSelector, namespaceSelector }: Pick<PodPeer, "podSelector" | "namespaceSelector">,
  own: string,
): readonly Pod[] {
  const names = namespacesOf(context, namespaceSelector, own);
  return context.hostPods.filter(
    ({ namespace, labels }) => names.has(namespace) && (podSelector === undefined || selects(podSelector, labels)),
  );
}

/** Returns the pods that a policy selects, as a peer. */
export function subjectOf(policy: NetworkPolicy | ClusterNetworkPolicy): PodPeer {
  if (policy.kind === "ClusterNetworkPolicy") return policy.subject;
  return { type: "pods", index: 0, podSelector: policy.podSelector, namespaceSelector: undefined };
}

/** Returns the names of the namespaces that a selector selects; without a selector, the policy's own. */
export function namespacesOf(
  { namespaces }: LintContext,
  selector: LabelSelector | undefined,
  own: string,
): ReadonlySet<string> {
  if (selector === undefined) return new Set([own]);
  return new Set([...namespaces].flatMap(([name, labels]) => (selects(selector, labels) ? [name] : [])));
}

/** Returns the namespace of a policy, in which its selectors select by default; empty for cluster-wide policies. */
export function ownNamespace(policy: object): string {
  return "namespace" in policy && typeof policy.namespace === "string" ? policy.namespace : "";
}

/** Keys by which people ask for a namespace's name; only {@link NAMESPACE_NAME} is set by Kubernetes. */
const NAME_KEYS: ReadonlySet<string> = new Set(["name", "namespace", "ns", "kubernetes.io/name"]);

/** A namespace that a selector asks for by its name under a key of its own, such as `name`. */
interface NamespaceByName {
  readonly name: string;
  readonly suggestion: Suggestion;
}

/** Returns the namespace whose name a selector that selects no namespace asks for; undefined where there is none. */
export function namespaceByName({ namespaces }: LintContext, selector: LabelSelector): NamespaceByName | undefined {
  for (const { key, operator, values } of requirementsOf(selector)) {
    if (operator !== "In" || !NAME_KEYS.has(key)) continue;
    const name = values.find((value) => namespaces.has(value));
    if (name === undefined) continue;
    return { name, suggestion: { asked: `${key}=${name}`, nearest: `${NAMESPACE_NAME}=${name}` } };
  }
  return undefined;
}

/** Returns whether a selector may select namespaces that were not read, whatever their labels are. */
export function isOpenEnded({ isWhole }: LintContext, selector: LabelSelector | undefined): boolean {
  if (isWhole || selector === undefined) return false;
  return requirementsOf(selector).every(
    ({ key, operator }) =>
      operator === "NotIn" || operator === "DoesNotExist" || (key === NAMESPACE_NAME && operator === "Exists"),
  );
}

/** Returns the namespaces whose labels are unknown, since they have objects but no Namespace object. */
export function namespacesWithoutObject({ namespaces, store }: LintContext): readonly string[] {
  return [...namespaces.keys()].filter((name) => !store.namespaces.has(name)).sort();
}
