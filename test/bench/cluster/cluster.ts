import type { Subject, Subjects } from "../subjects.ts";
import { compareConnections } from "./connections.ts";
import { type Plan, SIZES } from "./plan.ts";
import { compareServices } from "./services.ts";

/**
 * Returns the subjects: policyd beside kube-proxy with real components of a cluster of each size, and whole connections
 * by the rules of both.
 */
export function clusterSubjects(plan: Plan): Subjects {
  return {
    ...Object.fromEntries(
      SIZES.map((services): [string, Subject] => [
        `services-${services}`,
        (lab, progress) => compareServices(lab, { ...plan, services }, progress),
      ]),
    ),
    connections: (lab, progress) => compareConnections(lab, plan, progress),
  };
}
