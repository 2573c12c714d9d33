import type { Row } from "../row.ts";
import type { Subject, Subjects } from "../subjects.ts";
import type { ClusterSize } from "./cluster.ts";
import { coldLoad } from "./cold_load.ts";
import { eventToCommit } from "./event_to_commit.ts";
import { firstPacket, ownFirstPacket } from "./first_packet.ts";
import { LAYOUTS } from "./kube_proxy_layout.ts";
import { manyEndpoints } from "./many_endpoints.ts";
import type { Plan } from "./plan.ts";
import { comparedChanges, singleChanges } from "./single_change.ts";
import { Stage } from "./stage.ts";

const SMALL: ClusterSize = { services: 1000, endpoints: 3 };
const MIDDLE: ClusterSize = { services: 10_000, endpoints: 3 };
const LARGE: ClusterSize = { services: 30_000, endpoints: 3 };
const WIDE: ClusterSize = { services: 5000, endpoints: 50 };

/** Returns the subjects of the benchmark of Services, of which later ones use the costly loads of earlier ones. */
export function serviceSubjects(plan: Plan): Subjects {
  let made: Stage | undefined;
  const onStage =
    (measure: (stage: Stage) => readonly Row[]): Subject =>
    (_lab, _progress, home) =>
      measure((made ??= new Stage(home)));
  return {
    load: onStage((stage) => [
      ...coldLoad(stage, SMALL, "chains", plan.smallLoads),
      ...coldLoad(stage, SMALL, "maps", plan.smallLoads),
      ...coldLoad(stage, MIDDLE, "chains", plan.chainLoads, { timesFaster: 50 }),
      ...coldLoad(stage, MIDDLE, "maps", plan.mapLoads, { timesFaster: 15 }),
    ]),
    memory: onStage((stage) => manyEndpoints(stage, WIDE)),
    change: onStage((stage) => [
      ...singleChanges(stage, [SMALL, MIDDLE, LARGE, WIDE], plan.changes),
      ...LAYOUTS.flatMap((layout) => comparedChanges(stage, MIDDLE, layout, plan.changePairs)),
    ]),
    packet: onStage((stage) => [
      ...LAYOUTS.map((layout) => firstPacket(stage, MIDDLE, layout, plan.packetPairs)),
      ownFirstPacket(stage, LARGE, SMALL, plan.packetPairs),
    ]),
    event: async (lab) => [await eventToCommit(lab, MIDDLE, plan.events)],
  };
}
