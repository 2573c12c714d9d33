import type { Subjects } from "../subjects.ts";
import { builds } from "./build.ts";
import { cuts } from "./cuts.ts";
import type { Plan } from "./plan.ts";
import { singleChanges } from "./single_change.ts";

/** Returns the subjects of the benchmark of policies. */
export function policySubjects(plan: Plan): Subjects {
  return {
    change: (lab) => singleChanges(lab, plan),
    build: (lab) => builds(lab, { pods: plan.large.pods, policies: plan.builtPolicies }, plan.builds),
    cuts: () => cuts(plan.cutRounds),
  };
}
