import { repairSteps } from "../../../../cni/node_state/difference.ts";
import { type Problem, problemsOf } from "../../../../cni/node_state/problems.ts";
import { seen, type Remark } from "../../../../policyd/problems/check.ts";
import type { Check } from "../facts.ts";

export const nodeState: Check = {
  id: "node-state",
  summary: "The bridge, its addresses, routes and settings, and pods' ports are as the pods need them.",
  needs: ["nodeState"],
  examine: (facts) =>
    (seen(facts.nodeState) ?? []).flatMap(({ desired, observed }) => {
      const remaining = repairSteps(desired, observed);
      return problemsOf(desired, { remaining, refused: [], observed }).map(remarkOf);
    }),
};

function remarkOf({ text, isCut }: Problem): Remark {
  return {
    severity: isCut ? "error" : "warning",
    what: text.replace(": could not ", ": expected to "),
    why: isCut ? "pods of this node lack some of their network" : "packets take a longer way, or a less safe one",
    way: "policyd repairs it within a second while it runs: look whether it does, and which program changes it (ip monitor)",
  };
}
