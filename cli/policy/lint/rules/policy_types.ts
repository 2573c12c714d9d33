import { DIRECTIONS } from "../../../../objects/semantics/policies/flow.ts";
import { isolates, remark } from "../context.ts";
import type { LintRule } from "../finding.ts";
import { at } from "../../../input/raw.ts";

export const rulesIgnored: LintRule = {
  id: "rules-ignored",
  severity: "warning",
  summary:
    "Rules of a direction that policyTypes omits are ignored, and so is an empty egress list without policyTypes.",
  reason: "They look like a protection that is not there.",
  check: ({ networkPolicies }) =>
    networkPolicies.flatMap(({ manifest, policy }) =>
      DIRECTIONS.flatMap((direction) => {
        if (isolates(policy, direction)) return [];
        const type = direction === "egress" ? "Egress" : "Ingress";
        if (policy[direction].length > 0) {
          const message = `the ${direction} rules are ignored: policyTypes has no ${type}`;
          return [remark(manifest, ["spec", direction], message, `add ${type} to policyTypes, or delete the rules`)];
        }
        const isEmptyEgress = direction === "egress" && Array.isArray(at(manifest.source, "spec", "egress"));
        if (!isEmptyEgress || Array.isArray(at(manifest.source, "spec", "policyTypes"))) return [];
        const message = "egress: [] without policyTypes isolates nothing: all egress stays allowed";
        return [remark(manifest, ["spec", "egress"], message, "write policyTypes: [Ingress, Egress] to close egress")];
      }),
    ),
};
