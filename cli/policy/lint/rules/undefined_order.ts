import { remark } from "../context.ts";
import type { LintRule } from "../finding.ts";

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
