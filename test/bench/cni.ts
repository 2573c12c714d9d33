import path from "node:path";
import type { Lab } from "../lab/lab.ts";
import { install, OURS, peerContestant } from "./contestant.ts";
import type { Row } from "./row.ts";
import { RunDirectory } from "./run_directory.ts";
import { attach } from "./scenario/attach.ts";
import { garbage, version } from "./scenario/calls.ts";
import type { Scenario } from "./scenario/context.ts";
import { parallel } from "./scenario/parallel.ts";
import { parallelWithPolicyd } from "./scenario/parallel_policyd.ts";
import { throughput } from "./scenario/throughput.ts";
import type { Progress, Subject, Subjects } from "./subjects.ts";

const SCENARIOS: Readonly<Record<string, Scenario>> = {
  version,
  attach,
  first: parallel(1, 1.5),
  garbage,
  "parallel-30": parallel(30),
  "parallel-100": parallel(100),
  "parallel-30-policyd": parallelWithPolicyd,
  throughput,
};

/** Returns the subjects of the benchmark of the plugin. @param peers the directory of the reference plugins */
export function cniSubjects(peers: string, pairs: number): Subjects {
  const subject =
    (scenario: Scenario): Subject =>
    (lab, progress) =>
      runScenario(scenario, lab, peers, pairs, progress);
  return Object.fromEntries(Object.entries(SCENARIOS).map(([name, scenario]) => [name, subject(scenario)]));
}

/** Installs both contestants and runs a scenario. */
async function runScenario(
  scenario: Scenario,
  lab: Lab,
  peers: string,
  pairs: number,
  progress: Progress,
): Promise<readonly Row[]> {
  using run = new RunDirectory();
  const ours = install(OURS, path.join(lab.scratch, "drawbridge"));
  const peer = install(peerContestant(peers), path.join(lab.scratch, "peer"), ["host-local"]);
  return await scenario({ lab, runDirectory: run.path, ours, peer, pairs, progress });
}
