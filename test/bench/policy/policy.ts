import { fileURLToPath } from "node:url";
import { createLab, type Lab } from "../../lab/lab.ts";
import { thisMachine } from "../machine.ts";
import { RunDirectory } from "../run_directory.ts";
import { publishServicesReport, type ServicesReport } from "../services/report.ts";
import type { ServicesRow } from "../services/row.ts";
import { builds } from "./build.ts";
import { cuts } from "./cuts.ts";
import { eventToCommit } from "./event_to_commit.ts";
import { newFlow } from "./new_flow.ts";
import type { Plan } from "./plan.ts";
import { singleChanges } from "./single_change.ts";
import { throughput } from "./throughput.ts";

const RESULTS = fileURLToPath(new URL("../../../test-results/bench-policy.json", import.meta.url));

type Progress = (step: string) => void;

/** The subjects, in the order of their measurement. */
const SUBJECTS: Readonly<Record<string, (lab: Lab, plan: Plan) => Promise<readonly ServicesRow[]>>> = {
  change: singleChanges,
  event: async (lab, { large, small, events }) => [
    ...(await eventToCommit(lab, small, events)),
    ...(await eventToCommit(lab, large, events)),
  ],
  flow: newFlow,
  build: async (lab, { large, builtPolicies, builds: rounds }) =>
    builds(lab, { pods: large.pods, policies: builtPolicies }, rounds),
  cuts: async (_lab, { cutRounds }) => cuts(cutRounds),
  throughput: async (_lab, plan) => {
    using run = new RunDirectory();
    return await throughput(run.path, plan);
  },
};

export const SUBJECT_NAMES: readonly string[] = Object.keys(SUBJECTS);

/**
 * Measures policies, prints a table or JSON and leaves the JSON.
 *
 * @param only names of subjects; all when absent
 */
export async function benchPolicy(
  plan: Plan,
  only: readonly string[] | undefined,
  output: "table" | "json",
  progress: Progress,
): Promise<void> {
  const machine = thisMachine();
  const started = performance.now();
  const rows: ServicesRow[] = [];
  let nft = "";
  for (const [name, measure] of Object.entries(SUBJECTS)) {
    if (only !== undefined && !only.includes(name)) continue;
    progress(name);
    using lab = createLab("bench-policy");
    nft = lab.namespace("nft").exec("nft", ["--version"]).trim();
    rows.push(...(await measure(lab, plan)));
  }
  const seconds = Math.round((performance.now() - started) / 1000);
  const report: ServicesReport = { machine, nft, seconds, rows };
  publishServicesReport(report, RESULTS, output);
}
