import { isShadow, SHADOW_ANNOTATION, shadowProblem } from "../../../../objects/shadow_annotation.ts";
import { remark } from "../context.ts";
import type { LintRule } from "../finding.ts";
import { textAt } from "../../../input/raw.ts";

const PATH = ["metadata", "annotations", SHADOW_ANNOTATION] as const;

export const inShadow: LintRule = {
  id: "in-shadow",
  severity: "info",
  summary: `A policy is in shadow (${SHADOW_ANNOTATION}): what it would deny is counted and logged, and goes through.`,
  reason: "Remove the annotation when its log has become quiet.",
  check: ({ networkPolicies }) =>
    networkPolicies
      .filter(({ policy }) => isShadow(policy))
      .map(({ manifest }) =>
        remark(manifest, PATH, "in shadow: it isolates nobody", "delete the annotation to have it enforced"),
      ),
};

export const shadowAnnotation: LintRule = {
  id: "shadow-annotation",
  severity: "warning",
  summary: `The annotation ${SHADOW_ANNOTATION} has no effect: it is neither "true" nor "false", or not on a NetworkPolicy.`,
  reason: "The policy is in force although somebody meant it not to be.",
  check: ({ networkPolicies, clusterPolicies }) => [
    ...networkPolicies.flatMap(({ manifest, policy }) => {
      const message = shadowProblem(policy);
      if (message === undefined) return [];
      return [remark(manifest, PATH, message, 'write "true", or delete the annotation')];
    }),
    ...clusterPolicies.flatMap(({ manifest }) => {
      if (textAt(manifest.source, ...PATH) === undefined) return [];
      const message = `${SHADOW_ANNOTATION} is for NetworkPolicies: a ClusterNetworkPolicy is in force all the same`;
      return [remark(manifest, PATH, message, "delete the annotation")];
    }),
  ],
};
