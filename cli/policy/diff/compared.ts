import type { ClusterObject } from "../../../objects/model.ts";
import { buildPolicyIndex, type PolicyIndex } from "../../../objects/semantics/policies/policy_index.ts";
import type { PolicyOptions } from "../../../objects/semantics/policies/objects.ts";
import { storeOf } from "../../cluster/policy_objects.ts";
import { ExitCode } from "../../exit_code.ts";
import type { Io } from "../../io.ts";
import { type StandIns, standInsFor } from "../stand_ins.ts";
import type { Shown } from "../../input/shown.ts";
import { counted } from "../../output/text.ts";
import type { PolicyDiff } from "./diff.ts";
import type { End, Sides } from "./end_class.ts";

/** Two sides with stand-ins for what is in no file. */
export interface Compared {
  readonly sides: Sides;
  readonly standIns: StandIns;
}

/** Returns two sides with stand-ins for the pods that are in no file. @param objects of each side */
export function compareObjects(
  objects: Readonly<Record<keyof Sides, readonly ClusterObject[]>>,
  options: Partial<PolicyOptions>,
): Compared {
  const standIns = standInsFor(objects.before, objects.after);
  const indexOf = (side: keyof Sides): PolicyIndex =>
    buildPolicyIndex(storeOf([...objects[side], ...standIns.objects]), options);
  return { sides: { before: indexOf("before"), after: indexOf("after") }, standIns };
}

/** Returns the sides without the stand-ins. */
export function withoutStandIns({ sides, standIns: { names } }: Compared): Sides {
  if (names.size === 0) return sides;
  const without = ({ pods, nodes, ...index }: PolicyIndex): PolicyIndex => ({
    ...index,
    pods: new Map([...pods].filter(([key]) => !names.has(key))),
    nodes: new Map([...nodes].filter(([name]) => !names.has(name))),
  });
  return { before: without(sides.before), after: without(sides.after) };
}

/** Returns the exit code of a comparison: no difference among some of the pods is not an answer. */
export function exitCodeOf({ standIns }: Compared, isDifferent: boolean, { err }: Io): ExitCode {
  if (standIns.isComplete) return isDifferent ? ExitCode.NO : ExitCode.YES;
  err.write("not compared: too many kinds of new pods that the policies tell apart, so others may differ, too\n");
  return isDifferent ? ExitCode.NO : ExitCode.ERROR;
}

/** Returns a diff with only the changes of pods that are shown, and reports the number of the others. */
export function shownPart<T extends Pick<PolicyDiff, "changes">>(
  diff: T,
  sides: Sides,
  isShown: Shown,
  { err }: Io,
): T {
  const isEndShown = ({ podBefore, podAfter }: End): boolean => {
    const pod = sides.after.pods.get(podAfter?.key ?? "")?.pod ?? sides.before.pods.get(podBefore?.key ?? "")?.pod;
    return pod !== undefined && isShown(pod.namespace, pod.labels);
  };
  const changes = diff.changes.filter(({ example }) => isEndShown(example.source) || isEndShown(example.destination));
  const hidden = diff.changes.length - changes.length;
  if (hidden > 0) err.write(`not shown: ${counted(hidden, "change")} of other pods, which the exit code counts\n`);
  return { ...diff, changes };
}
