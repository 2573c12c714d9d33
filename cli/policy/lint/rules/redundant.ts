import type { ClusterNetworkPolicy, NetworkPolicy } from "../../../../policyd/objects/model.ts";
import { isShadow } from "../../../../policyd/objects/shadow_annotation.ts";
import { DIRECTIONS, isolates, type LintedPolicy, remark } from "../context.ts";
import { isAllowAll } from "../coverage.ts";
import { asInfo, type LintRule, type Remark } from "../finding.ts";
import { Removal } from "../removal.ts";
import { isEmptySelector } from "../selector_text.ts";

export const redundant: LintRule = {
  id: "redundant",
  severity: "warning",
  summary:
    "Without the policy every connection between these pods, nodes and the outside would be the same; all that are reported may go together.",
  check: ({ index, networkPolicies, clusterPolicies }) => {
    const removal = new Removal(index);
    const all: readonly LintedPolicy[] = [...networkPolicies, ...clusterPolicies];
    // The last one is tried first, so that of two equal policies the second is reported.
    const gone = all.toReversed().filter(({ policy, pods }) => {
      return pods.length > 0 && isInForce(policy) && !isDefaultDeny(policy) && removal.removeIfUnneeded(policy);
    });
    return gone.toReversed().map(({ manifest, policy }): Remark => {
      const message = "redundant: without it every connection is the same";
      const found = remark(manifest, [], message, "delete it, unless it is for pods to come");
      return asInfo(found, allowsAll(policy));
    });
  },
};

/** A policy in shadow has no effect on purpose. */
function isInForce(policy: NetworkPolicy | ClusterNetworkPolicy): boolean {
  return policy.kind === "ClusterNetworkPolicy" || !isShadow(policy);
}

/** Returns whether a policy allows all in each direction that it isolates, as in charts with optional policies. */
function allowsAll(policy: NetworkPolicy | ClusterNetworkPolicy): boolean {
  if (policy.kind === "ClusterNetworkPolicy") return false;
  return DIRECTIONS.every(
    (direction) => !isolates(policy, direction) || policy[direction].some((rule) => isAllowAll(rule)),
  );
}

/** Returns whether a policy closes a whole namespace, and so is meant for future pods, whatever others do. */
function isDefaultDeny(policy: NetworkPolicy | ClusterNetworkPolicy): boolean {
  if (policy.kind === "ClusterNetworkPolicy") return false;
  return isEmptySelector(policy.podSelector) && DIRECTIONS.every((direction) => policy[direction].length === 0);
}
