import { DIRECTIONS } from "../../../../objects/semantics/policies/flow.ts";
import type { ClusterNetworkPolicy, NetworkPolicy } from "../../../../objects/model.ts";
import { isShadow } from "../../../../objects/shadow_annotation.ts";
import { isEmptySelector } from "../../../../policyd/policies/compile/selector.ts";
import { isolates, type LintContext, type LintedPolicy, remark } from "../context.ts";
import { isAllowAll } from "../coverage.ts";
import { asInfo, type LintRule, type Remark } from "../finding.ts";
import { isOpenEnded, evaluatedPeers } from "../peer_state.ts";
import { Removal } from "../removal.ts";

export const redundant: LintRule = {
  id: "redundant",
  severity: "warning",
  summary:
    "Without the policy every connection between these pods, nodes and the outside would be the same; all that are reported may go together.",
  reason:
    "A policy without an effect costs its readers time. It is info where it allows everything or nothing, where a peer was not read, and for a ClusterNetworkPolicy, which also counts for NetworkPolicies to come.",
  judgesBy: ["policies", "pods", "namespaces"],
  check: (context) =>
    unneededPolicies(context).map(({ manifest, policy }): Remark => {
      const message = "redundant: without it every connection is the same";
      const isClusterWide = policy.kind === "ClusterNetworkPolicy";
      const fix = `delete it, unless it is for pods${isClusterWide ? " or policies" : ""} to come`;
      // A ClusterNetworkPolicy holds whatever NetworkPolicies others write, which is often its purpose.
      const isMeant = isClusterWide || allowsAll(policy) || closesAll(policy) || awaitsPods(context, policy);
      return asInfo(remark(manifest, [], message, fix), isMeant);
    }),
};

const KNOWN = new WeakMap<LintContext, readonly LintedPolicy[]>();

/** Returns the policies that may all go together without a change of any connection; for each context they are found once. */
export function unneededPolicies(context: LintContext): readonly LintedPolicy[] {
  const known = KNOWN.get(context);
  if (known !== undefined) return known;
  const removal = new Removal(context.index);
  // The last one is tried first, so that of two equal policies the second is reported.
  const gone = context.policies.toReversed().filter(({ policy, pods }) => {
    return pods.length > 0 && isInForce(policy) && !isDefaultDeny(policy) && removal.removeIfUnneeded(policy);
  });
  KNOWN.set(context, gone.toReversed());
  return gone.toReversed();
}

/** A policy in shadow has no effect on purpose. */
function isInForce(policy: NetworkPolicy | ClusterNetworkPolicy): boolean {
  return policy.kind === "ClusterNetworkPolicy" || !isShadow(policy);
}

/** Returns whether a policy allows all in each direction that it isolates, as in charts with optional policies. */
export function allowsAll(policy: NetworkPolicy): boolean {
  return DIRECTIONS.every(
    (direction) => !isolates(policy, direction) || policy[direction].some((rule) => isAllowAll(rule)),
  );
}

/** Returns whether a policy closes each direction that it isolates, which it still does when others change. */
function closesAll(policy: NetworkPolicy): boolean {
  return DIRECTIONS.every((direction) => !isolates(policy, direction) || policy[direction].length === 0);
}

/**
 * Returns whether a policy has a peer that was not read or is nobody, so that its effect shows only with other pods.
 * Other findings are about such peers.
 */
function awaitsPods(context: LintContext, policy: NetworkPolicy): boolean {
  return context.networkSites
    .filter(({ linted }) => linted.policy === policy)
    .flatMap((site) => evaluatedPeers(context, site))
    .some(
      ({ peer, state }) =>
        state.type !== "something" || (peer.type === "pods" && isOpenEnded(context, peer.namespaceSelector)),
    );
}

/** Returns whether a policy closes a whole namespace, and so is meant for future pods, whatever others do. */
function isDefaultDeny(policy: NetworkPolicy | ClusterNetworkPolicy): boolean {
  if (policy.kind === "ClusterNetworkPolicy") return false;
  return isEmptySelector(policy.podSelector) && DIRECTIONS.every((direction) => policy[direction].length === 0);
}
