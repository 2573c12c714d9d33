import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import path from "node:path";
import { ADMINISTRATOR } from "../cluster.ts";
import { enterLogged } from "../node/processes.ts";
import { ProgramError, run } from "../run.ts";
import type { RunningCluster } from "../state.ts";
import { readResults, type TestResult } from "./result.ts";
import type { GinkgoSuite } from "./suites.ts";

const MINUTE = 60_000;
/** Matches Ginkgo's line for a test that ended, in the output of a run. */
const ENDED = /^(?:•|S) (?:\[[A-Z]+!?\] )?\[[0-9.]+ seconds\]$/gm;

/** A choice of upstream's tests, as a suite has it. */
export type Choice = Pick<GinkgoSuite, "name" | "focus" | "elsewhere" | "omitted" | "processes">;

/** The directories of a run's programs and files. */
export interface RunPlace {
  /** The directory of Kubernetes' programs. */
  readonly programs: string;
  /** The directory for NAME.log, the tests' whole output, and NAME.report.json, Ginkgo's report. */
  readonly directory: string;
}

/** Returns the titles of the tests that a choice selects. */
export function listTests(
  choice: Pick<GinkgoSuite, "focus" | "elsewhere" | "omitted">,
  programs: string,
): readonly string[] {
  // Starting the tests leaves temporary files.
  const directory = mkdtempSync(path.join(programs, "list-"));
  const report = path.join(directory, "report.json");
  const args = choiceArguments(choice).map((argument) => argument.replace("--", "--ginkgo."));
  try {
    run(path.join(programs, "e2e.test"), ["--ginkgo.dry-run", `--ginkgo.json-report=${report}`, ...args], {
      env: { TMPDIR: directory },
    });
    return readResults(readFileSync(report, "utf8")).map(({ title }) => title);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

/** Runs a choice of upstream's tests against the cluster, and prints the progress every minute. */
export async function runTests(
  { machine, nodes }: RunningCluster,
  choice: Choice,
  { programs, directory }: RunPlace,
  say: (line: string) => void,
): Promise<readonly TestResult[]> {
  const { name, processes } = choice;
  const { length: count } = listTests(choice, programs);
  mkdirSync(directory, { recursive: true });
  const log = path.join(directory, `${name}.log`);
  const report = `${name}.report.json`;
  rmSync(path.join(directory, report), { force: true });
  const command = [
    path.join(programs, "ginkgo"),
    "run",
    `--procs=${processes}`,
    "--no-color",
    "--keep-going",
    "-v",
    "--timeout=6h",
    "--poll-progress-after=0",
    `--output-dir=${directory}`,
    `--json-report=${report}`,
    ...choiceArguments(choice),
    path.join(programs, "e2e.test"),
    "--",
    `--kubeconfig=${ADMINISTRATOR}`,
    "--provider=skeleton",
    `--num-nodes=${nodes.length}`,
    "--delete-namespace-on-failure=true",
  ];
  const timer = setInterval(() => {
    const ended = readFileSync(log, "utf8").match(ENDED)?.length ?? 0;
    say(`${name}: ${ended} of ${count} tests ended`);
  }, MINUTE);
  // The exit code says whether a test failed; the report lists each of them.
  await enterLogged(machine, ["env", `PATH=${programs}:/usr/sbin:/usr/bin:/sbin:/bin`, ...command], log);
  clearInterval(timer);
  if (!existsSync(path.join(directory, report))) {
    throw new ProgramError(`${name} ended before its report: see ${log}; --resume runs it again`);
  }
  return readResults(readFileSync(path.join(directory, report), "utf8"));
}

function choiceArguments({ focus, elsewhere = [], omitted }: Parameters<typeof listTests>[0]): readonly string[] {
  const skip = [...elsewhere, ...Object.keys(omitted)];
  return [...focus.map((one) => `--focus=${one}`), ...skip.map((one) => `--skip=${one}`)];
}
