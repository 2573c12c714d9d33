import type { ClusterNetworkPolicy } from "../../../../objects/model.ts";
import {
  type ClusterSite,
  type LintContext,
  type LintedPolicy,
  type NetworkSite,
  remark,
  type RuleSite,
} from "../context.ts";
import { isAllowAll, ruleCovers, selectorCovers } from "../coverage.ts";
import { ruleText } from "../../../input/place.ts";
import { isShadow } from "../../../../objects/shadow_annotation.ts";
import { asInfo, type LintRule, type Remark } from "../finding.ts";
import { unneededPolicies } from "./redundant.ts";

export const shadowed: LintRule = {
  id: "shadowed",
  severity: "warning",
  summary: "Another rule of the same policy, or of one for the same pods, covers a rule wholly.",
  reason: "To tighten the rule later changes nothing. It is info where the other rule allows everything.",
  check: (context) => [...shadowedNetworkRules(context), ...shadowedClusterRules(context)],
};

/** Returns whether a rule stays as long as another: a redundant policy covers no other, since both findings may be followed. */
function stays(context: LintContext, cover: RuleSite, site: RuleSite): boolean {
  return (
    cover.linted === site.linted || !unneededPolicies(context).some(({ policy }) => policy === cover.linted.policy)
  );
}

/** Rules add up, so of two that cover each other the later one is reported. */
function shadowedNetworkRules(context: LintContext): readonly Remark[] {
  const { networkSites, namespaces } = context;
  const byNamespace = Map.groupBy(networkSites, ({ linted }) => linted.policy.namespace);
  return [...byNamespace].flatMap(([namespace, sites]) => {
    const labels = namespaces.get(namespace);
    const covers = (outer: NetworkSite, inner: NetworkSite): boolean =>
      outer.direction === inner.direction &&
      // A policy in shadow does not cover one in force.
      (!isShadow(outer.linted.policy) || isShadow(inner.linted.policy)) &&
      selectorCovers(outer.linted.policy.podSelector, inner.linted.policy.podSelector) &&
      ruleCovers(outer.rule, inner.rule, labels);
    return sites.flatMap((site, i) => {
      const cover = sites.find(
        (other, j) => i !== j && covers(other, site) && (j < i || !covers(site, other)) && stays(context, other, site),
      );
      if (cover === undefined) return [];
      const found = shadowRemark(site, cover, "allows all that this rule allows");
      return [asInfo(found, isAllowAll(cover.rule))];
    });
  });
}

/** The first matching rule decides, so only an earlier one can cover another completely. */
function shadowedClusterRules(context: LintContext): readonly Remark[] {
  return context.clusterSites.flatMap((site, i) => {
    const cover = context.clusterSites
      .slice(0, i)
      .find(
        (other) =>
          isAskedFirst(other, site) && ruleCovers(other.rule, site.rule, undefined) && stays(context, other, site),
      );
    return cover === undefined ? [] : [shadowRemark(site, cover, "comes first, and this rule is never asked")];
  });
}

function isAskedFirst(first: ClusterSite, second: ClusterSite): boolean {
  if (first.direction !== second.direction) return false;
  if (first.linted === second.linted) return true;
  const [one, other] = [first.linted.policy, second.linted.policy];
  return one.tier === other.tier && one.priority < other.priority && subjectCovers(one, other);
}

function subjectCovers({ subject: outer }: ClusterNetworkPolicy, { subject: inner }: ClusterNetworkPolicy): boolean {
  return (
    selectorCovers(outer.namespaceSelector, inner.namespaceSelector) &&
    selectorCovers(outer.podSelector, inner.podSelector)
  );
}

function shadowRemark(site: RuleSite, cover: RuleSite, because: string): Remark {
  const { manifest }: LintedPolicy = cover.linted;
  const isSame = site.linted === cover.linted;
  const where = `${isSame ? "" : `${cover.linted.policy.key} `}${ruleText(manifest.object, cover.direction, cover.rule.index)}`;
  const message = `shadowed: ${where} (${manifest.file}:${manifest.lineOf(cover.path)}) ${because}`;
  return remark(site.linted.manifest, site.path, message, "delete this rule, or narrow the other");
}

export const undefinedOrder: LintRule = {
  id: "undefined-order",
  severity: "warning",
  summary:
    "Two ClusterNetworkPolicies of one tier and priority are for the same pods: which is asked first is undefined.",
  reason: "Engines and versions may differ.",
  check: ({ clusterPolicies }) =>
    clusterPolicies.flatMap(({ manifest, policy, pods }, i) => {
      const own = new Set(pods);
      const tied = clusterPolicies
        .slice(0, i)
        .find(
          (other) =>
            other.policy.tier === policy.tier &&
            other.policy.priority === policy.priority &&
            other.pods.some((pod) => own.has(pod)),
        );
      if (tied === undefined) return [];
      const message = `has tier ${policy.tier} and priority ${policy.priority} like ${tied.policy.key}, and both are for the same pods`;
      return [remark(manifest, ["spec", "priority"], message, "give each a priority of its own")];
    }),
};
