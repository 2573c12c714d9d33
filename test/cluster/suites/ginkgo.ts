import { existsSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import path from "node:path";
import { ADMINISTRATOR } from "../cluster.ts";
import { enterLogged } from "../node/processes.ts";
import type { RunningCluster } from "../state.ts";
import type { TestResult } from "./result.ts";
import { readResults } from "./result.ts";
import type { Suite } from "./suites.ts";

const MINUTE = 60_000;

/**
 * Runs a choice of upstream's tests against the cluster and says every minute how far they are. Their whole output goes to
 * NAME.log.
 *
 * @param programs the directory of Kubernetes' programs
 * @param directory where reports and logs go
 */
export async function runTests(
  { machine, nodes }: RunningCluster,
  { name, focus, skip, processes }: Pick<Suite, "name" | "focus" | "skip" | "processes">,
  programs: string,
  directory: string,
  say: (line: string) => void,
): Promise<readonly TestResult[]> {
  mkdirSync(directory, { recursive: true });
  rmSync(path.join(directory, `${name}.json`), { force: true });
  const report = `${name}.json`;
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
    ...focus.map((one) => `--focus=${one}`),
    ...skip.map((one) => `--skip=${one}`),
    path.join(programs, "e2e.test"),
    "--",
    `--kubeconfig=${ADMINISTRATOR}`,
    "--provider=skeleton",
    `--num-nodes=${nodes.length}`,
    "--delete-namespace-on-failure=true",
  ];
  const log = path.join(directory, `${name}.log`);
  const timer = setInterval(() => say(`${name}: ${progressOf(log)}`), MINUTE);
  // The exit code says whether a test failed; the report has each of them.
  await enterLogged(machine, ["env", `PATH=${programs}:/usr/sbin:/usr/bin:/sbin:/bin`, ...command], log);
  clearInterval(timer);
  return readResults(readFileSync(path.join(directory, report), "utf8"));
}

/** Ginkgo's output has a bullet for each test that ended. */
function progressOf(log: string): string {
  const text = existsSync(log) ? readFileSync(log, "utf8") : "";
  const ended = text.match(/^•/gm)?.length ?? 0;
  const failed = text.match(/^• \[FAILED\]/gm)?.length ?? 0;
  return `${ended} tests ended, ${failed} failed`;
}
