import { CLUSTER_POLICIES, CLUSTER_POLICY_VERSIONS } from "../../../../policyd/objects/gate/gate.ts";
import type { LintRule } from "../finding.ts";
import { textAt } from "../../../input/raw.ts";

export const adminPolicies: LintRule = {
  id: "admin-network-policy",
  severity: "error",
  summary:
    "AdminNetworkPolicy and BaselineAdminNetworkPolicy (v1alpha1) are gone: ClusterNetworkPolicy (v1beta1) is their successor.",
  check: ({ manifests }) =>
    manifests.foreignPolicies.map(({ source, file, line, replacement }) => {
      const object = `${textAt(source, "kind") ?? "policy"} ${textAt(source, "metadata", "name") ?? ""}`.trimEnd();
      const isSeveral = replacement?.includes("\n---\n") === true;
      return {
        place: { object, file, line, source },
        message: "is of v1alpha1, which nothing here enforces",
        fix:
          replacement === undefined
            ? `write it as ClusterNetworkPolicy of ${CLUSTER_POLICIES}/${CLUSTER_POLICY_VERSIONS[0]}`
            : `replace it by the ${isSeveral ? "ClusterNetworkPolicies below; their priorities have to be free" : "ClusterNetworkPolicy below"}`,
        ...(replacement === undefined ? {} : { replacement }),
      };
    }),
};
