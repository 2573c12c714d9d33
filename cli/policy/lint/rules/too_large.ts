import { oversizes } from "../../size.ts";
import { remark } from "../context.ts";
import type { LintRule } from "../finding.ts";

export const tooLarge: LintRule = {
  id: "too-large",
  severity: "error",
  summary:
    "A policy has more peers and ports than nodes take: they isolate its pods and let it allow nothing (POL-73).",
  check: ({ index, networkPolicies }) =>
    oversizes(index).flatMap(({ policy, direction, text, fix }) =>
      networkPolicies
        .filter((linted) => linted.policy === policy)
        .map(({ manifest }) => remark(manifest, ["spec", direction], `${direction}: ${text}`, fix)),
    ),
};
