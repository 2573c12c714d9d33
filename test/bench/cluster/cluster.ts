import type { Subject, Subjects } from "../subjects.ts";
import { type Plan, SIZES, type SizedPlan } from "./plan.ts";
import { compareServices } from "./services.ts";

/** The number of Services for each change a second. Half of the changes replace an endpoint, so a Service has one in 20 s. */
const SERVICES_OF_ONE_CHANGE = 10;

/** Returns the subjects: policyd beside kube-proxy with real components of a cluster of each size. */
export function clusterSubjects(plan: Plan): Subjects {
  return Object.fromEntries(
    SIZES.map((services): [string, Subject] => [
      `services-${services}`,
      (lab, progress) => compareServices(lab, sized(plan, services), progress),
    ]),
  );
}

/** Returns the plan of a cluster whose Services change seldom enough that no change hides the previous one. */
function sized(plan: Plan, services: number): SizedPlan {
  return { ...plan, services, changesPerSecond: Math.min(plan.changesPerSecond, services / SERVICES_OF_ONE_CHANGE) };
}
