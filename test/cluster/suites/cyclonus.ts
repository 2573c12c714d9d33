import { existsSync, mkdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { ADMINISTRATOR } from "../cluster.ts";
import { enterLogged } from "../node/processes.ts";
import { buildCyclonus } from "../programs.ts";
import { ProgramError } from "../run.ts";
import type { RunningCluster } from "../state.ts";
import { NOT_ENDED, readCyclonus } from "./cyclonus_output.ts";
import type { TestResult } from "./result.ts";
import type { CyclonusSuite } from "./suites.ts";

const MINUTE = 60_000;

/** Seconds that cyclonus gives a change of policies, and each probe. Its own defaults, 5 and 10, suit slower add-ons. */
const SETTLING = 2;
const PROBE_TIMEOUT = 1;
/** How often a step whose probes differ from the expected ones is probed again: an exec on a busy machine can fail. */
const RETRIES = 2;

/**
 * Runs cyclonus' cases with these tags: each makes policies, probes every port of nine pods from each of them, and compares
 * the table with the one that its own model of NetworkPolicy computes. Its output goes to NAME.log.
 */
export async function runCyclonus(
  { machine }: RunningCluster,
  { name, include, exclude, protocols }: Pick<CyclonusSuite, "name" | "include" | "exclude" | "protocols">,
  directory: string,
  say: (line: string) => void,
): Promise<readonly TestResult[]> {
  const built = buildCyclonus(say);
  mkdirSync(directory, { recursive: true });
  const log = path.join(directory, `${name}.log`);
  const command = [
    path.join(built.directory, "cyclonus"),
    "generate",
    "--ignore-loopback",
    `--include=${include.join(",")}`,
    `--exclude=${exclude.join(",")}`,
    `--server-protocol=${protocols.join(",")}`,
    `--perturbation-wait-seconds=${SETTLING}`,
    `--job-timeout-seconds=${PROBE_TIMEOUT}`,
    `--retries=${RETRIES}`,
    "--pod-creation-timeout-seconds=300",
  ];
  const results = (): readonly TestResult[] => readCyclonus(existsSync(log) ? readFileSync(log, "utf8") : "");
  const timer = setInterval(() => say(`${name}: ${describe(results())}`), MINUTE);
  await enterLogged(machine, ["env", `KUBECONFIG=${ADMINISTRATOR}`, ...command], log);
  clearInterval(timer);
  if (results().length === 0 || results().some(({ message }) => message === NOT_ENDED)) {
    throw new ProgramError(`${name} ended before its last case: see ${log}`);
  }
  return results();
}

function describe(results: readonly TestResult[]): string {
  const ended = results.filter(({ message }) => message !== NOT_ENDED);
  const failed = ended.filter(({ state }) => state === "failed");
  return `${ended.length} of ${results.length} cases ended, ${failed.length} failed`;
}
