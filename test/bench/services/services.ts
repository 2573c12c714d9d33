import { fileURLToPath } from "node:url";
import { createLab, type Lab } from "../../lab/lab.ts";
import { thisMachine } from "../machine.ts";
import type { ClusterSize } from "./cluster.ts";
import { coldLoad, ownColdLoad } from "./cold_load.ts";
import { eventToCommit } from "./event_to_commit.ts";
import { firstPacket, ownFirstPacket } from "./first_packet.ts";
import { LAYOUTS } from "./kube_proxy_layout.ts";
import { manyEndpoints } from "./many_endpoints.ts";
import type { Plan } from "./plan.ts";
import { publishServicesReport, type ServicesReport } from "./report.ts";
import type { ServicesRow } from "./row.ts";
import { comparedChanges, singleChanges } from "./single_change.ts";
import { Stage } from "./stage.ts";

const RESULTS = fileURLToPath(new URL("../../../test-results/bench-services.json", import.meta.url));

const SMALL: ClusterSize = { services: 1000, endpoints: 3 };
const MIDDLE: ClusterSize = { services: 10_000, endpoints: 3 };
const LARGE: ClusterSize = { services: 30_000, endpoints: 3 };
const WIDE: ClusterSize = { services: 5000, endpoints: 50 };

type Progress = (step: string) => void;

/** The subjects, in the order of their measurement: later ones use the costly loads of earlier ones. */
const SUBJECTS: Readonly<Record<string, (stage: Stage, lab: Lab, plan: Plan) => Promise<readonly ServicesRow[]>>> = {
  load: async (stage, _lab, plan) => [
    ...coldLoad(stage, SMALL, "chains", plan.smallLoads),
    ...coldLoad(stage, SMALL, "maps", plan.smallLoads),
    ...coldLoad(stage, MIDDLE, "chains", plan.chainLoads, { timesFaster: 50 }),
    ...coldLoad(stage, MIDDLE, "maps", plan.mapLoads, { timesFaster: 15 }),
    ...ownColdLoad(stage, LARGE, plan.ownLoads),
  ],
  memory: async (stage) => manyEndpoints(stage, WIDE),
  change: async (stage, _lab, plan) => [
    ...singleChanges(stage, [SMALL, MIDDLE, LARGE, WIDE], plan.changes),
    ...LAYOUTS.flatMap((layout) => comparedChanges(stage, MIDDLE, layout, plan.changePairs)),
  ],
  packet: async (stage, _lab, plan) => [
    ...LAYOUTS.map((layout) => firstPacket(stage, MIDDLE, layout, plan.packetPairs)),
    ownFirstPacket(stage, LARGE, SMALL, plan.packetPairs),
  ],
  event: async (_stage, lab, plan) => [await eventToCommit(lab, MIDDLE, plan.events)],
};

export const SUBJECT_NAMES: readonly string[] = Object.keys(SUBJECTS);

/**
 * Measures Services beside kube-proxy's two layouts, prints a table or JSON and leaves the JSON.
 *
 * @param only names of subjects; all when absent
 */
export async function benchServices(
  plan: Plan,
  only: readonly string[] | undefined,
  output: "table" | "json",
  progress: Progress,
): Promise<void> {
  const machine = thisMachine();
  const started = performance.now();
  using lab = createLab("bench-services");
  using stage = new Stage(lab);
  const nft = lab.namespace("nft").exec("nft", ["--version"]).trim();
  const rows: ServicesRow[] = [];
  for (const [name, measure] of Object.entries(SUBJECTS)) {
    if (only?.includes(name) === false) continue;
    progress(name);
    rows.push(...(await measure(stage, lab, plan)));
  }
  const seconds = Math.round((performance.now() - started) / 1000);
  const report: ServicesReport = { machine, nft, seconds, rows };
  publishServicesReport(report, RESULTS, output);
}
