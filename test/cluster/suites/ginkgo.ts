import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import path from "node:path";
import { ADMINISTRATOR } from "../cluster.ts";
import { enterLogged } from "../node/processes.ts";
import { ProgramError, run } from "../run.ts";
import type { RunningCluster } from "../state.ts";
import { describeProgress, readEndedTests } from "./progress.ts";
import { readResults, type TestResult } from "./result.ts";
import { keepPassed, passedBefore } from "./resume.ts";
import type { GinkgoSuite } from "./suites.ts";

const MINUTE = 60_000;

/** A choice of upstream's tests, as a suite has it. */
export type Choice = Pick<GinkgoSuite, "name" | "focus" | "elsewhere" | "omitted" | "processes">;

/** The directories of a run's programs and files. */
export interface RunPlace {
  /** The directory of Kubernetes' programs. */
  readonly programs: string;
  /** The directory for NAME.log, the tests' whole output, NAME.report.json, Ginkgo's report, and NAME.passed.json. */
  readonly directory: string;
  /** Whether tests that passed in an earlier, interrupted run are omitted, and their results taken from there. */
  readonly isResumed?: boolean;
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
  { programs, directory, isResumed = false }: RunPlace,
  say: (line: string) => void,
): Promise<readonly TestResult[]> {
  const { name, processes } = choice;
  const titles = listTests(choice, programs);
  mkdirSync(directory, { recursive: true });
  const log = path.join(directory, `${name}.log`);
  const passed = isResumed ? passedBefore(directory, name, titles) : [];
  keepPassed(directory, name, passed);
  const rest = titles.filter((title) => passed.every((one) => one.title !== title));
  if (passed.length > 0) say(`${name}: ${passed.length} of ${titles.length} tests have passed before`);
  if (rest.length === 0) return passed;

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
    ...(passed.length > 0 ? [`--focus=(?:${rest.map(asExpression).join("|")})$`] : choiceArguments(choice)),
    path.join(programs, "e2e.test"),
    "--",
    `--kubeconfig=${ADMINISTRATOR}`,
    "--provider=skeleton",
    `--num-nodes=${nodes.length}`,
    "--delete-namespace-on-failure=true",
  ];
  const timer = setInterval(
    () => say(`${name}: ${describeProgress(readEndedTests(readFileSync(log, "utf8"), rest), rest.length)}`),
    MINUTE,
  );
  // The exit code says whether a test failed; the report lists each of them.
  await enterLogged(machine, ["env", `PATH=${programs}:/usr/sbin:/usr/bin:/sbin:/bin`, ...command], log);
  clearInterval(timer);
  if (!existsSync(path.join(directory, report))) {
    throw new ProgramError(`${name} ended before its report: see ${log}; --resume runs the tests that have not passed`);
  }
  return [...passed, ...readResults(readFileSync(path.join(directory, report), "utf8"))].toSorted((a, b) =>
    a.title < b.title ? -1 : 1,
  );
}

function choiceArguments({ focus, elsewhere = [], omitted }: Parameters<typeof listTests>[0]): readonly string[] {
  const skip = [...elsewhere, ...Object.keys(omitted)];
  return [...focus.map((one) => `--focus=${one}`), ...skip.map((one) => `--skip=${one}`)];
}

/** Returns a regular expression of Go that matches a text literally. */
function asExpression(text: string): string {
  return text.replaceAll(/[\\.+*?()|[\]{}^$]/g, String.raw`\$&`);
}
