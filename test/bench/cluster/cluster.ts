import type { Subjects } from "../subjects.ts";
import { compareConnections } from "./connections.ts";
import type { Plan } from "./plan.ts";
import { compareServices } from "./services.ts";

/**
 * Returns the subjects: policyd beside kube-proxy with real components of a cluster, and whole connections by the rules
 * of both.
 */
export function clusterSubjects(plan: Plan): Subjects {
  return {
    services: (lab, progress) => compareServices(lab, plan, progress),
    connections: (lab, progress) => compareConnections(lab, plan, progress),
  };
}
