import { CLUSTER_POLICIES, CLUSTER_POLICY_VERSIONS } from "../../../../objects/gate/gate.ts";
import { asClusterNetworkPolicies } from "../../../input/admin_policy.ts";
import { isReplacedPolicy } from "../../../input/objects/take.ts";
import type { LintRule } from "../finding.ts";
import { textAt } from "../../../input/raw.ts";

export const adminPolicies: LintRule = {
  id: "admin-network-policy",
  severity: "error",
  summary:
    "AdminNetworkPolicy and BaselineAdminNetworkPolicy (v1alpha1) are gone: ClusterNetworkPolicy (v1beta1) is their successor.",
  reason: "The finding has the policy to write instead.",
  check: ({ manifests }) =>
    manifests.problems.flatMap(({ source, file, line }) => {
      if (!isReplacedPolicy(source)) return [];
      const conversion = asClusterNetworkPolicies(source);
      const object = `${textAt(source, "kind") ?? "policy"} ${textAt(source, "metadata", "name") ?? ""}`.trimEnd();
      const found = { place: { object, file, line, source }, message: "is of v1alpha1, which nothing here enforces" };
      if (conversion.type === "refused") {
        const version = `${CLUSTER_POLICIES}/${CLUSTER_POLICY_VERSIONS[0]}`;
        return {
          ...found,
          fix: `write it as ClusterNetworkPolicy of ${version}; it cannot be made of this one: ${conversion.problem}`,
        };
      }
      const isSeveral = conversion.yaml.includes("\n---\n");
      const below = isSeveral
        ? "ClusterNetworkPolicies below; their priorities have to be free"
        : "ClusterNetworkPolicy below";
      return { ...found, fix: `replace it by the ${below}`, replacement: conversion.yaml };
    }),
};
