import { existsSync, mkdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { ADMINISTRATOR, kubectl, type Materials } from "../cluster.ts";
import { enterLogged } from "../node/processes.ts";
import { buildCyclonus } from "../programs.ts";
import { ProgramError } from "../run.ts";
import type { RunningCluster } from "../state.ts";
import { NOT_ENDED, readCyclonus } from "./cyclonus_output.ts";
import type { TestResult } from "./result.ts";
import type { CyclonusSuite } from "./suites.ts";

const MINUTE = 60_000;
/** The namespaces of cyclonus' pods. */
const NAMESPACES = ["x", "y", "z"];

/** Seconds from a change of policies to its probes. cyclonus' own default, 5, suits slower add-ons. */
const SETTLING = 1;
/** The number of retries of a step whose probes differ from the expected ones: a busy machine can be late. */
const RETRIES = 2;

/**
 * Runs cyclonus' cases with these tags. Each makes policies, probes every port of nine pods from each of them, and
 * compares the results with those of cyclonus' own model of NetworkPolicy. The output goes to NAME.log.
 */
export async function runCyclonus(
  { machine }: RunningCluster,
  { name, include, exclude, protocols }: Pick<CyclonusSuite, "name" | "include" | "exclude" | "protocols">,
  materials: Materials,
  directory: string,
  say: (line: string) => void,
): Promise<readonly TestResult[]> {
  const program = buildCyclonus(say);
  mkdirSync(directory, { recursive: true });
  const log = path.join(directory, `${name}.log`);
  const command = [
    program,
    `--include=${include.join(",")}`,
    `--exclude=${exclude.join(",")}`,
    `--server-protocol=${protocols.join(",")}`,
    `--perturbation-wait-seconds=${SETTLING}`,
    `--retries=${RETRIES}`,
  ];
  const results = (): readonly TestResult[] => readCyclonus(existsSync(log) ? readFileSync(log, "utf8") : "");
  const timer = setInterval(() => say(`${name}: ${describe(results())}`), MINUTE);
  await enterLogged(machine, ["env", `KUBECONFIG=${ADMINISTRATOR}`, ...command], log);
  clearInterval(timer);
  // The pods of the next part may serve other protocols.
  kubectl(materials, ["delete", "namespace", ...NAMESPACES, "--ignore-not-found", "--wait"]);
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
