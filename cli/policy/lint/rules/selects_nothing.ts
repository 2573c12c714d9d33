import type { LabelSelector } from "../../../../objects/model.ts";
import { isEmptySelector } from "../../../../policyd/policies/compile/selector.ts";
import { NAMESPACE_NAME } from "../../../../objects/name.ts";
import { isForClusterDns } from "../../cluster_dns.ts";
import { type LintContext, type LintedPolicy, peerPath, remark } from "../context.ts";
import { keysOf } from "../../../../objects/semantics/policies/selector.ts";
import { asInfo, type LintRule, type Remark } from "../finding.ts";
import {
  isOpenEnded,
  namespaceByName,
  namespacesWithoutObject,
  hostPodsOf,
  evaluatedPeers,
  namespacesOf,
  nearestNamespace,
  ownNamespace,
  subjectOf,
  UNLESS_TO_COME,
} from "../peer_state.ts";
import { isOfOperator } from "../operator_selectors.ts";
import { nearestLabel, suggestionText, unknownValue } from "../nearest_label.ts";
import { namesText, peerText, selectorText } from "../selector_text.ts";

export const selectsNothing: LintRule = {
  id: "selects-nothing",
  severity: "warning",
  summary: "A policy selects none of the pods that were read.",
  reason:
    "Most often a label is misspelt, and the pods that it was written for are open. It is info where an operator creates such pods.",
  judgesBy: ["pods", "namespaces"],
  check: (context) => (context.hasPods ? context.policies.flatMap((linted) => subjectRemark(context, linted)) : []),
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
    : subject.namespaceSelector && nearestNamespace(context, subject.namespaceSelector);
  const path = policy.kind === "NetworkPolicy" ? ["spec", "podSelector"] : ["spec", "subject"];
  const message = `selects nothing (${peerText(subject, own)})`;
  const found = remark(
    manifest,
    path,
    message,
    suggestionText(suggestion) ?? `correct the selector, or delete the policy${UNLESS_TO_COME}`,
  );
  const isElsewhere =
    isOpenEnded(context, subject.namespaceSelector) ||
    namespacesThatMayFit(context, subject.namespaceSelector).length > 0 ||
    isOfOperator(context, subject);
  return [asInfo(found, suggestion === undefined && isElsewhere)];
}

export const peerSelectsNothing: LintRule = {
  id: "peer-selects-nothing",
  severity: "warning",
  summary: "One peer of a rule selects none of the pods that were read, while others do.",
  reason: "Somebody who should be let in is not. It is info where an operator creates the pods.",
  judgesBy: ["pods", "namespaces"],
  check: (context) =>
    context.hasPods
      ? context.sites.flatMap((site) => {
          const evaluated = evaluatedPeers(context, site);
          if (evaluated.every(({ state }) => state.type === "nothing")) return [];
          return evaluated.flatMap(({ peer, state }) => {
            if (state.type !== "nothing") return [];
            const own = ownNamespace(site.linted.policy);
            const fix = suggestionText(state.suggestion) ?? `correct the selector, or delete the peer${UNLESS_TO_COME}`;
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
  reason: "The rule is for nobody. Kubernetes labels a namespace with its name only as kubernetes.io/metadata.name.",
  judgesBy: ["namespaces"],
  check: (context) =>
    context.sites.flatMap((site) =>
      evaluatedPeers(context, site).flatMap(({ peer, state }) => {
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
  summary: "A peer is in namespaces of which no pod was read.",
  reason: "The pods of other namespaces are in other files. With them lint can judge the peer.",
  judgesBy: ["pods", "namespaces"],
  check: (context) =>
    context.hasPods
      ? context.sites.flatMap((site) =>
          evaluatedPeers(context, site).flatMap(({ peer, state }) => {
            // Every cluster has these pods, and files of policies do not.
            if (peer.type !== "pods" || (!context.isWhole && isForClusterDns(peer))) return [];
            const place = peerPath(site, peer.index);
            if (state.type === "unread pods") {
              const message = `no pod among the files is meant (${peerText(peer, "")})`;
              return [remark(site.linted.manifest, place, message, "give the files of other namespaces, too, with -f")];
            }
            if (state.type !== "unknown namespace") return [];
            const { namespaceSelector } = peer;
            const where =
              namespaceSelector === undefined || isEmptySelector(namespaceSelector)
                ? "the namespace"
                : `a namespace with ${selectorText(namespaceSelector)}`;
            const message = `no pods of ${where} are among the files`;
            const fix = unknownNamespaceFix(context, namespaceSelector);
            return [remark(site.linted.manifest, place, message, fix)];
          }),
        )
      : [],
};

/** Returns the remedy for a peer in unknown namespaces: one that was read without its object may be meant. */
function unknownNamespaceFix(context: LintContext, selector: LabelSelector | undefined): string {
  const fix = "give its files, too, with -f";
  if (selector === undefined || isEmptySelector(selector)) return fix;
  const byName = namespaceByName(context, selector);
  if (byName !== undefined) {
    const { name, suggestion } = byName;
    return `${name} is without its Namespace object, so only its name is known: give the object, too, or write ${suggestion.nearest}`;
  }
  const names = namespacesThatMayFit(context, selector);
  return names.length === 0 ? fix : `${fix}, or the Namespace object of ${namesText(names)}`;
}

/** Returns the namespaces that a selector may select by labels that are not known, as their objects were not read. */
function namespacesThatMayFit(context: LintContext, selector: LabelSelector | undefined): readonly string[] {
  const isByOtherLabels = selector !== undefined && keysOf(selector).some((key) => key !== NAMESPACE_NAME);
  return isByOtherLabels ? namespacesWithoutObject(context) : [];
}
