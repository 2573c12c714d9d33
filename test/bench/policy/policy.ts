import { RunDirectory } from "../run_directory.ts";
import type { Subjects } from "../subjects.ts";
import { builds } from "./build.ts";
import { cuts } from "./cuts.ts";
import { eventToCommit } from "./event_to_commit.ts";
import { newFlow } from "./new_flow.ts";
import type { Plan } from "./plan.ts";
import { singleChanges } from "./single_change.ts";
import { throughput } from "./throughput.ts";

/** Returns the subjects of the benchmark of policies. */
export function policySubjects(plan: Plan): Subjects {
  const { large, small } = plan;
  return {
    change: (lab) => singleChanges(lab, plan),
    event: async (lab) => [
      ...(await eventToCommit(lab, small, plan.events)),
      ...(await eventToCommit(lab, large, plan.events)),
    ],
    flow: (lab) => newFlow(lab, plan),
    build: (lab) => builds(lab, { pods: large.pods, policies: plan.builtPolicies }, plan.builds),
    cuts: () => cuts(plan.cutRounds),
    throughput: async () => {
      using run = new RunDirectory();
      return await throughput(run.path, plan);
    },
  };
}
