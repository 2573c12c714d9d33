import type { Row } from "../row.ts";
import type { Subject, Subjects } from "../subjects.ts";
import type { ClusterSize } from "./cluster.ts";
import { coldLoad } from "./cold_load.ts";
import { manyEndpoints } from "./many_endpoints.ts";
import type { Plan } from "./plan.ts";
import { singleChanges } from "./single_change.ts";
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
    load: onStage((stage) => [...coldLoad(stage, SMALL, plan.smallLoads), ...coldLoad(stage, MIDDLE, plan.loads)]),
    memory: onStage((stage) => manyEndpoints(stage, WIDE)),
    change: onStage((stage) => [...singleChanges(stage, [SMALL, MIDDLE, LARGE, WIDE], plan.changes)]),
  };
}
