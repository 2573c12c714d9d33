import { fileURLToPath } from "node:url";
import { createLab, type Lab } from "../../lab/lab.ts";
import { thisMachine } from "../machine.ts";
import { publishServicesReport, type ServicesReport } from "../services/report.ts";
import type { ServicesRow } from "../services/row.ts";
import { compareConnections } from "./connections.ts";
import type { Plan } from "./plan.ts";
import { comparePods } from "./pods/pods.ts";
import { compareServices } from "./services.ts";

const RESULTS = fileURLToPath(new URL("../../../test-results/bench-cluster.json", import.meta.url));

type Progress = (step: string) => void;

/** The subjects that can be measured by themselves, each in a lab of its own. */
const SUBJECTS: Readonly<
  Record<string, (lab: Lab, plan: Plan, progress: Progress) => Promise<readonly ServicesRow[]>>
> = { services: compareServices, pods: comparePods, connections: compareConnections };

export const SUBJECT_NAMES: readonly string[] = Object.keys(SUBJECTS);

/**
 * Measures policyd and the plugin beside kube-proxy and the Go plugins with real components of a cluster, prints a table
 * or JSON and leaves the JSON.
 *
 * @param only names of subjects; all when absent
 */
export async function benchCluster(
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
    if (only?.includes(name) === false) continue;
    using lab = createLab(`bench-${name}`);
    nft ||= lab.namespace("nft").exec("nft", ["--version"]).trim();
    rows.push(...(await measure(lab, plan, (step) => progress(`${name}: ${step}`))));
  }
  const seconds = Math.round((performance.now() - started) / 1000);
  const report: ServicesReport = { machine, nft, seconds, rows };
  publishServicesReport(report, RESULTS, output);
}
