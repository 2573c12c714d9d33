import type { ClusterPolicyPeer, PodPeer, PolicyPeer } from "../../../../objects/model.ts";
import { isEmptySelector } from "../../../../policyd/policies/compile/selector.ts";
import { type LintContext, type LintedPolicy, type NetworkSite, peerPath, remark, type RuleSite } from "../context.ts";
import type { LintRule, Remark } from "../finding.ts";
import { hostPodsOf, ownNamespace, subjectOf } from "../peer_state.ts";
import { namesText, peerText } from "../selector_text.ts";

export const andOr: LintRule = {
  id: "and-or",
  severity: "warning",
  summary:
    "A namespaceSelector and a podSelector stand in two list items (OR) where one with both (AND) was probably meant.",
  reason: "The rule is for everybody in these namespaces, and for every such pod of the own namespace.",
  check: ({ networkSites }) =>
    networkSites.flatMap((site) => {
      const apart = itemsApart(site.rule.peers ?? []);
      if (apart === undefined) return [];
      const message = `two list items, so either is enough (OR): ${readingOf(site)}`;
      const fix = `for pods that meet both (AND), drop the dash before the second selector: ${combined(apart)}`;
      return [remark(site.linted.manifest, peerPath(site, apart.second.index), message, fix)];
    }),
};

/** Explains a rule with selectors that is easily misread (POL-23). */
export const peersReadAs: LintRule = {
  id: "peers-read-as",
  severity: "info",
  summary: "How the peers of a rule are read, where one has both selectors (AND) or several have one (OR).",
  reason: "An indentation makes an AND or an OR of such a list.",
  check: ({ networkSites }) =>
    networkSites.flatMap((site) => {
      const peers = site.rule.peers ?? [];
      const selectors = peers.filter((peer) => peer.type === "pods");
      const hasBoth = selectors.some((peer) => peer.podSelector !== undefined && peer.namespaceSelector !== undefined);
      if ((!hasBoth && selectors.length < 2) || itemsApart(peers) !== undefined) return [];
      const message = `read as: ${readingOf(site)}`;
      return [remark(site.linted.manifest, site.path, message, "nothing, if that is what is meant")];
    }),
};

interface ItemsApart {
  readonly first: PodPeer;
  readonly second: PodPeer;
}

/** Returns an item with only a namespaceSelector and an adjacent one with only a podSelector, neither of them empty. */
function itemsApart(peers: readonly PolicyPeer[]): ItemsApart | undefined {
  for (const [i, second] of peers.entries()) {
    const first = peers[i - 1];
    if (first?.type !== "pods" || second.type !== "pods") continue;
    const namespaces = [first, second].filter(isNamespacesAlone);
    const pods = [first, second].filter(isPodsAlone);
    if (namespaces.length === 1 && pods.length === 1) return { first, second };
  }
  return undefined;
}

function isNamespacesAlone(peer: PodPeer): boolean {
  return peer.podSelector === undefined && peer.namespaceSelector !== undefined;
}

function isPodsAlone({ podSelector, namespaceSelector }: PodPeer): boolean {
  // People combine all pods of their own namespace with those of others on purpose.
  return namespaceSelector === undefined && podSelector !== undefined && !isEmptySelector(podSelector);
}

function combined({ first, second }: ItemsApart): string {
  const { podSelector } = isPodsAlone(first) ? first : second;
  const { namespaceSelector } = isPodsAlone(first) ? second : first;
  return peerText({ type: "pods", index: 0, podSelector, namespaceSelector }, "");
}

/** Returns every peer in words. */
function readingOf({ linted, rule }: NetworkSite): string {
  const own = ownNamespace(linted.policy);
  return (rule.peers ?? []).map((peer) => peerText(peer, own)).join(" OR ");
}

export const hostNetwork: LintRule = {
  id: "host-network",
  severity: "warning",
  summary: "A selector is for pods of the host's network, on which it has no effect (POL-54).",
  reason: "To policies such a pod is its node, whatever its labels are.",
  check: (context) => [
    ...context.policies.flatMap((linted) => subjectRemarks(context, linted)),
    ...context.sites.flatMap((site) => hostPeerRemarks(context, site)),
  ],
};

function subjectRemarks(context: LintContext, { manifest, policy, pods }: LintedPolicy): readonly Remark[] {
  const subject = subjectOf(policy);
  const found = hostPodsOf(context, subject, ownNamespace(policy));
  // A selector for all pods is not meant for these.
  const isAboutThem = subject.podSelector !== undefined && !isEmptySelector(subject.podSelector);
  if (found.length === 0 || (!isAboutThem && pods.length > 0)) return [];
  const names = namesText(found.map(({ key }) => key));
  const message = `selects pods of the host's network, on which it has no effect: ${names}`;
  const fix = "protect their ports on the node itself, or run them without hostNetwork";
  return [remark(manifest, ["spec", policy.kind === "NetworkPolicy" ? "podSelector" : "subject"], message, fix)];
}

function hostPeerRemarks(context: LintContext, site: RuleSite): readonly Remark[] {
  const own = ownNamespace(site.linted.policy);
  const peers: readonly (PolicyPeer | ClusterPolicyPeer)[] = site.rule.peers ?? [];
  return peers.flatMap((peer, i) => {
    const looked = site.indexed.peers?.[i];
    if (peer.type !== "pods" || looked === undefined) return [];
    const found = hostPodsOf(context, peer, own);
    const isAboutThem = peer.podSelector !== undefined && !isEmptySelector(peer.podSelector);
    if (found.length === 0 || (!isAboutThem && (context.podsOf(looked) ?? []).length > 0)) return [];
    const names = namesText(found.map(({ key }) => key));
    const message = `the peer is for pods of the host's network, which no selector selects: ${names}`;
    const fix = "use an ipBlock with the nodes' addresses";
    return [remark(site.linted.manifest, peerPath(site, peer.index), message, fix)];
  });
}
