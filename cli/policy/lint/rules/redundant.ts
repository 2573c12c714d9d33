import type { ClusterNetworkPolicy, NetworkPolicy } from "../../../../policyd/cluster/model.ts";
import { isShadow } from "../../../../policyd/cluster/shadow.ts";
import type { LintedPolicy } from "../context.ts";
import { DIRECTIONS, isolates, remark } from "../context.ts";
import { isAllowAll } from "../coverage.ts";
import type { LintRule, Remark } from "../finding.ts";
import { asInfo } from "../finding.ts";
import { Removal } from "../removal.ts";
import { isEmptySelector } from "../words.ts";

export const redundant: LintRule = {
  id: "redundant",
  severity: "warning",
  summary:
    "Without the policy every connection between these pods, nodes and the outside would be the same; all that are reported may go together.",
  check: ({ index, networkPolicies, clusterPolicies }) => {
    const removal = new Removal(index);
    const all: readonly LintedPolicy[] = [...networkPolicies, ...clusterPolicies];
    // The last goes first, so that of two equal ones it is the second that is told of.
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

/** A policy in shadow changes nothing on purpose. */
function isInForce(policy: NetworkPolicy | ClusterNetworkPolicy): boolean {
  return policy.kind === "ClusterNetworkPolicy" || !isShadow(policy);
}

/** Allows everything in each direction that it isolates, as charts have it whose policies can be turned on. */
function allowsAll(policy: NetworkPolicy | ClusterNetworkPolicy): boolean {
  if (policy.kind === "ClusterNetworkPolicy") return false;
  return DIRECTIONS.every(
    (direction) => !isolates(policy, direction) || policy[direction].some((rule) => isAllowAll(rule)),
  );
}

/** What closes a whole namespace is there for pods to come, whatever others do for those that are there. */
function isDefaultDeny(policy: NetworkPolicy | ClusterNetworkPolicy): boolean {
  if (policy.kind === "ClusterNetworkPolicy") return false;
  return isEmptySelector(policy.podSelector) && DIRECTIONS.every((direction) => policy[direction].length === 0);
}
