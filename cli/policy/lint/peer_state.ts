import type {
  ClusterNetworkPolicy,
  ClusterPolicyPeer,
  LabelSelector,
  NetworkPolicy,
  Pod,
  PodPeer,
  PolicyPeer,
} from "../../../policyd/cluster/model.ts";
import { fitsPeer } from "../../../policyd/policy/evaluate/match.ts";
import type { ResolvedEnd } from "../../../policyd/policy/evaluate/party.ts";
import { selects } from "../../../policyd/policy/evaluate/selector.ts";
import type { LintContext, RuleSite } from "./context.ts";
import type { Suggestion } from "./nearest_label.ts";
import { nearestLabel } from "./nearest_label.ts";

/** What a peer comes to among the objects that were read. */
export type PeerState =
  | { readonly type: "something" }
  /** Its pods are all of the host's network. */
  | { readonly type: "host network" }
  /** No namespace has the labels, and one has labels like them. */
  | { readonly type: "typo"; readonly suggestion: Suggestion }
  /** No namespace that was read has the labels: it may be elsewhere. */
  | { readonly type: "unknown namespace" }
  /** There are pods where it looks, and none of them has the labels. */
  | { readonly type: "nothing"; readonly suggestion: Suggestion | undefined };

type Peer = PolicyPeer | ClusterPolicyPeer;

/** A peer of a rule with what it comes to. */
export interface JudgedPeer {
  readonly peer: Peer;
  readonly state: PeerState;
}

const SOMETHING: PeerState = { type: "something" };

/** The peers of a rule; none for a rule that is for everyone. */
export function judgedPeers(context: LintContext, { linted, rule, indexed }: RuleSite): readonly JudgedPeer[] {
  const peers: readonly Peer[] = rule.peers ?? [];
  const own = ownNamespace(linted.policy);
  return peers.map((peer, i) => {
    const looked = indexed.peers?.[i];
    const pods = looked === undefined ? undefined : context.podsOf(looked);
    if (peer.type !== "pods" || pods === undefined || pods.length > 0) return { peer, state: SOMETHING };
    return { peer, state: emptyState(context, peer, own) };
  });
}

function emptyState(context: LintContext, peer: PodPeer, own: string): PeerState {
  if (hostPodsOf(context, peer, own).length > 0) return { type: "host network" };
  const names = namespacesOf(context, peer.namespaceSelector, own);
  if (names.size === 0) {
    const suggestion =
      peer.namespaceSelector === undefined
        ? undefined
        : nearestLabel(peer.namespaceSelector, context.namespaces.values());
    return suggestion === undefined ? { type: "unknown namespace" } : { type: "typo", suggestion };
  }
  const there = context.pods.filter(({ namespace }) => names.has(namespace));
  // Namespaces without any pod in the files say nothing about what runs there.
  if (there.length === 0) return { type: "unknown namespace" };
  const labels = there.map((pod) => pod.labels);
  return { type: "nothing", suggestion: peer.podSelector && nearestLabel(peer.podSelector, labels) };
}

/**
 * Returns the pods that a rule's ipBlocks have or may have: a pod without an address, such as one out of a template, may get one
 * of theirs.
 */
export function podsOfBlocks({ pods }: LintContext, { indexed }: RuleSite): readonly Pod[] {
  const blocks = (indexed.peers ?? []).filter(({ type }) => type === "addresses");
  if (blocks.length === 0) return [];
  return pods.filter((pod) => {
    const ends = pod.addresses.map((address): ResolvedEnd => {
      return { party: { type: "pod", key: pod.key, address }, address, pod, subject: undefined };
    });
    return ends.length === 0 || ends.some((end) => blocks.some((block) => fitsPeer(block, end)));
  });
}

/** The pods of the host's network that a selector would select, if selectors did. */
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

/** Whom a policy is for. */
export function subjectOf(policy: NetworkPolicy | ClusterNetworkPolicy): PodPeer {
  if (policy.kind === "ClusterNetworkPolicy") return policy.subject;
  return { type: "pods", index: 0, podSelector: policy.podSelector, namespaceSelector: undefined };
}

/** The namespaces a selector selects, by name; without one the policy's own. */
export function namespacesOf(
  { namespaces }: LintContext,
  selector: LabelSelector | undefined,
  own: string,
): ReadonlySet<string> {
  if (selector === undefined) return new Set([own]);
  return new Set([...namespaces].flatMap(([name, labels]) => (selects(selector, labels) ? [name] : [])));
}

/** The namespace in which selectors select by default; cluster-wide policies have none. */
export function ownNamespace(policy: object): string {
  return "namespace" in policy && typeof policy.namespace === "string" ? policy.namespace : "";
}
