import { repairSteps } from "../../../../cni/node_state/difference.ts";
import { type Problem, problemsOf } from "../../../../cni/node_state/problems.ts";
import { NODE_STATE } from "../../../../policyd/node_state/report.ts";
import { seen } from "../diagnose.ts";
import type { NodeFacts } from "../facts.ts";
import type { Check, Remark } from "../finding.ts";

/** The prefix of the daemon's problems that this check reports. */
const OF_THE_DAEMON = `${NODE_STATE}: `;

/** Returns whether this check reports a problem of the daemon's status. */
export function isOfNodeState(problem: string): boolean {
  return problem.startsWith(OF_THE_DAEMON);
}

export const nodeState: Check = {
  id: "node-state",
  summary: "The bridge, its addresses, routes and settings, and pods' ports are as the pods need them.",
  needs: ["nodeState"],
  examine: (facts) =>
    (seen(facts.nodeState) ?? []).flatMap(({ desired, observed }) => {
      const remaining = repairSteps(desired, observed);
      return problemsOf(desired, { remaining, refused: [], observed }).map((problem) => remarkOf(problem, facts));
    }),
};

function remarkOf({ text, isCut }: Problem, { daemon }: NodeFacts): Remark {
  const answer = seen(daemon);
  const reported = answer !== undefined && "status" in answer ? answer.status.problems.filter(isOfNodeState) : [];
  const reasons = reported.map((problem) => problem.slice(OF_THE_DAEMON.length));
  return {
    severity: isCut ? "error" : "warning",
    what: text.replace(": could not ", ": expected to "),
    why: isCut ? "pods of this node lack some of their network" : "packets take a longer way, or a less safe one",
    way:
      reasons.length > 0
        ? `policyd could not repair it: ${reasons.join("; ")}`
        : "policyd repairs it within a second while it runs: look whether it does, and which program changes it (ip monitor)",
  };
}
