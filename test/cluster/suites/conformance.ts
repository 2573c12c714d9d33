import { existsSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import path from "node:path";
import { ADMINISTRATOR, kubectl, type Materials } from "../cluster.ts";
import { enterLogged } from "../node/processes.ts";
import { PROJECT } from "../place.ts";
import { buildNetworkPolicyApi } from "../programs.ts";
import { ProgramError, until } from "../run.ts";
import type { RunningCluster } from "../state.ts";
import { readGoTest } from "./go_test.ts";
import type { TestResult } from "./result.ts";

const MINUTE = 60_000;
const ROOT = "TestConformanceProfiles";
const CRD = "clusternetworkpolicies.policy.networking.k8s.io";

/** Installs the CRD of ClusterNetworkPolicy from the experimental channel. Returns the programs of its repository. */
export async function installPolicyDefinition(
  materials: Materials,
  say: (line: string) => void,
): Promise<ReturnType<typeof buildNetworkPolicyApi>> {
  const built = buildNetworkPolicyApi(say);
  const definition = "config/crd/experimental/policy.networking.k8s.io_clusternetworkpolicies.yaml";
  kubectl(materials, ["apply", "--server-side", "-f", path.join(built.source, definition)]);
  // kubectl wait fails as long as a definition has no conditions.
  const isEstablished = `--output=jsonpath={.status.conditions[?(@.type=="Established")].status}`;
  await until(
    "the definition of ClusterNetworkPolicy",
    () => (kubectl(materials, ["get", `crd/${CRD}`, isEstablished]) === "True" ? true : undefined),
    60,
  );
  return built;
}

/**
 * Runs the conformance tests of ClusterNetworkPolicy with every feature. Their output goes to NAME.log, and their own
 * report, in upstream's form, to NAME.report.yaml.
 */
export async function runConformance(
  { machine }: RunningCluster,
  name: string,
  materials: Materials,
  directory: string,
  say: (line: string) => void,
): Promise<readonly TestResult[]> {
  const built = await installPolicyDefinition(materials, say);
  mkdirSync(directory, { recursive: true });
  const log = path.join(directory, `${name}.log`);
  const report = path.join(directory, `${name}.report.yaml`);
  rmSync(report, { force: true });
  const command = [
    path.join(built.directory, "conformance.test"),
    "-test.v",
    "-test.timeout=2h",
    `-test.run=^${ROOT}$`,
    "--all-features",
    "--conformance-profiles=ClusterNetworkPolicy",
    "--organization=Drawbridge",
    "--project=drawbridge",
    "--url=README.md",
    `--version=${ownVersion()}`,
    "--contact=SECURITY.md",
    "--additional-info=docs/conformance.md",
    `--report-output=${report}`,
  ];
  const results = (): readonly TestResult[] => readGoTest(existsSync(log) ? readFileSync(log, "utf8") : "", ROOT);
  const timer = setInterval(() => say(`${name}: ${describe(results())}`), MINUTE);
  // The exit code says whether a test failed; the output lists each of them.
  await enterLogged(machine, ["env", `KUBECONFIG=${ADMINISTRATOR}`, ...command], log);
  clearInterval(timer);
  if (!existsSync(report)) throw new ProgramError(`${name} ended before its report: see ${log}`);
  return results();
}

function ownVersion(): string {
  const text = readFileSync(path.join(PROJECT, "package.json"), "utf8");
  return /"version": "(?<version>[^"]+)"/.exec(text)?.groups?.["version"] ?? "";
}

/**
 * Describes the progress. Go prints the outcome of each test only after the last one, so only the started tests are
 * known before.
 */
function describe(results: readonly TestResult[]): string {
  return `${results.length} tests have begun, the last is ${results.at(-1)?.title ?? "none"}`;
}
