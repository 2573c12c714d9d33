import { RunDirectory } from "../run_directory.ts";
import type { Subjects } from "../subjects.ts";
import { builds } from "./build.ts";
import { cuts } from "./cuts.ts";
import { newFlow } from "./new_flow.ts";
import type { Plan } from "./plan.ts";
import { singleChanges } from "./single_change.ts";
import { throughput } from "./throughput.ts";

/** Returns the subjects of the benchmark of policies. */
export function policySubjects(plan: Plan): Subjects {
  return {
    change: (lab) => singleChanges(lab, plan),
    flow: (lab) => newFlow(lab, plan),
    build: (lab) => builds(lab, { pods: plan.large.pods, policies: plan.builtPolicies }, plan.builds),
    cuts: () => cuts(plan.cutRounds),
    throughput: async () => {
      using run = new RunDirectory();
      return await throughput(run.path, plan);
    },
  };
}
