import { type LintContext, type LintedPolicy, peerPath, remark, type RuleSite } from "../context.ts";
import { asInfo, type LintRule, type Remark } from "../finding.ts";
import { isOfOperator } from "../operator_pods.ts";
import { nearestLabel, suggestionText, unknownValue } from "../nearest_label.ts";
import { hostPodsOf, judgedPeers, namespacesOf, ownNamespace, subjectOf } from "../peer_state.ts";
import { isEmptySelector, peerText, selectorText } from "../selector_text.ts";

export const selectsNothing: LintRule = {
  id: "selects-nothing",
  severity: "warning",
  summary: "A policy selects none of the pods that were read, so it has no effect.",
  check: (context) =>
    context.hasPods
      ? [...context.networkPolicies, ...context.clusterPolicies].flatMap((linted) => subjectRemark(context, linted))
      : [],
};

function subjectRemark(context: LintContext, { manifest, policy, pods }: LintedPolicy): readonly Remark[] {
  const subject = subjectOf(policy);
  const own = ownNamespace(policy);
  if (pods.length > 0 || hostPodsOf(context, subject, own).length > 0) return [];
  const names = namespacesOf(context, subject.namespaceSelector, own);
  const there = context.pods.filter(({ namespace }) => names.has(namespace));
  const isByName = there.length > 0 && subject.podSelector !== undefined;
  const suggestion = isByName
    ? nearestLabel(
        subject.podSelector,
        there.map(({ labels }) => labels),
      )
    : subject.namespaceSelector && nearestLabel(subject.namespaceSelector, context.namespaces.values());
  const path = policy.kind === "NetworkPolicy" ? ["spec", "podSelector"] : ["spec", "subject"];
  const message = `selects nothing (${peerText(subject, own)})`;
  const found = remark(
    manifest,
    path,
    message,
    suggestionText(suggestion) ?? "correct the selector, or delete the policy",
  );
  return [asInfo(found, suggestion === undefined && isOfOperator(context, subject))];
}

export const peerSelectsNothing: LintRule = {
  id: "peer-selects-nothing",
  severity: "warning",
  summary: "One peer of a rule selects none of the pods that were read, while others do.",
  check: (context) =>
    context.hasPods
      ? sitesOf(context).flatMap((site) => {
          const judged = judgedPeers(context, site);
          if (judged.every(({ state }) => state.type === "nothing")) return [];
          return judged.flatMap(({ peer, state }) => {
            if (state.type !== "nothing") return [];
            const own = ownNamespace(site.linted.policy);
            const fix = suggestionText(state.suggestion) ?? "correct the selector, or delete the peer";
            const message = `this peer is nobody (${peerText(peer, own)})`;
            const found = remark(site.linted.manifest, peerPath(site, peer.index), message, fix);
            return [asInfo(found, state.suggestion === undefined && isOfOperator(context, peer))];
          });
        })
      : [],
};

export const namespaceTypo: LintRule = {
  id: "namespace-typo",
  severity: "warning",
  summary: "No namespace has a label that a namespaceSelector asks for, and one has a label that looks like it.",
  check: (context) =>
    sitesOf(context).flatMap((site) =>
      judgedPeers(context, site).flatMap(({ peer, state }) => {
        const selector = peer.type === "pods" ? peer.namespaceSelector : undefined;
        const all = context.namespaces.values();
        const suggestion = state.type === "typo" ? state.suggestion : selector && unknownValue(selector, all);
        if (suggestion === undefined) return [];
        const { asked, nearest } = suggestion;
        const message = `no namespace has the label ${asked}`;
        return [remark(site.linted.manifest, peerPath(site, peer.index), message, `probably ${nearest} is meant`)];
      }),
    ),
};

export const unknownNamespace: LintRule = {
  id: "unknown-namespace",
  severity: "info",
  summary: "A peer is in namespaces of which no pod was read, so nothing can be said about it.",
  check: (context) =>
    context.hasPods
      ? sitesOf(context).flatMap((site) =>
          judgedPeers(context, site).flatMap(({ peer, state }) => {
            if (state.type !== "unknown namespace" || peer.type !== "pods") return [];
            const { namespaceSelector } = peer;
            const where =
              namespaceSelector === undefined || isEmptySelector(namespaceSelector)
                ? "the namespace"
                : `a namespace with ${selectorText(namespaceSelector)}`;
            const message = `no pods of ${where} are among the files`;
            return [remark(site.linted.manifest, peerPath(site, peer.index), message, "give its files, too, with -f")];
          }),
        )
      : [],
};

function sitesOf({ networkSites, clusterSites }: LintContext): readonly RuleSite[] {
  return [...networkSites, ...clusterSites];
}
