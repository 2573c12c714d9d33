import type { Verdict } from "./gate.ts";
import { nameOf } from "./gate.ts";

/**
 * Tells of a policy that the daemon reads and does not enforce: passing it over without a word would leave open what it
 * closes.
 */
export function tellUnenforced(verdict: Verdict): Verdict {
  if (verdict.type !== "accepted" || verdict.object.kind !== "ClusterNetworkPolicy") return verdict;
  const problem = `${nameOf(verdict.object)}: this version of Drawbridge does not enforce it; use NetworkPolicy`;
  return { ...verdict, problems: Object.freeze([...verdict.problems, problem]) };
}
