import type { Lab } from "../../lab/lab.ts";
import { type Halves, measured, onePairInTurn, type Row } from "../row.ts";
import { CHANGE_KINDS, type ChangeKind } from "./change_kinds.ts";
import { sizeText } from "./cluster.ts";
import { loadOurs } from "./loaded.ts";
import type { Ours, Taken } from "./ours.ts";
import type { Plan } from "./plan.ts";

/** The goals: milliseconds in the kernel, and those that a large cluster may cost more than a small one. */
const GOAL = 0.2;
const DIFFERENCE_GOAL = 0.1;
/** One round in this number also changes a policy, since the end of its batches has to be awaited. */
const POLICY_STEP = 4;

/** Measures changes of one pod or one policy among many, by our layout on a large and on a small cluster in turn. */
export async function singleChanges(lab: Lab, { large, small, changes }: Plan): Promise<readonly Row[]> {
  using largeNode = await loadOurs(lab, large);
  using smallNode = await loadOurs(lab, small);
  const taken = new Map<ChangeKind, Halves<Taken>[]>();
  for (let number = 0; number < changes; number++) {
    for (const kind of CHANGE_KINDS) {
      if (!kind.isOfPod && number % POLICY_STEP !== 0) continue;
      const pairs = taken.get(kind) ?? [];
      taken.set(kind, pairs);
      const on = (contestant: Ours) => async (): Promise<Taken> => await changeOnce(contestant, kind, number);
      pairs.push(await onePairInTurn(number, on(largeNode.contestant), on(smallNode.contestant)));
    }
  }
  return [...taken].flatMap(([kind, pairs]) => {
    const values = (of: "ours" | "peer", what: "inKernel" | "whole"): readonly number[] =>
      pairs.map((pair) => pair[of][what]);
    const { name, isOfPod } = kind;
    const goal = isOfPod ? GOAL : undefined;
    const difference = `${name}: in the kernel, ${large.pods.toLocaleString("en")} pods less ${small.pods.toLocaleString("en")}`;
    return [
      measured(`${name}, ${sizeText(large)}: in the kernel`, "ms", values("ours", "inKernel"), goal),
      measured(`${name}, ${sizeText(small)}: in the kernel`, "ms", values("peer", "inKernel"), goal),
      measured(
        difference,
        "ms",
        pairs.map(({ ours, peer }) => ours.inKernel - peer.inKernel),
        isOfPod ? DIFFERENCE_GOAL : undefined,
      ),
      measured(`${name}, ${sizeText(large)}: from the object to the commit`, "ms", values("ours", "whole")),
    ];
  });
}

/** Makes one change. @throws Error when a pod's change makes more than one commit, or one changes no element */
async function changeOnce(ours: Ours, { name, isOfPod, change }: ChangeKind, number: number): Promise<Taken> {
  const taken = isOfPod ? await ours.changeOnce([change(number)]) : await ours.change([change(number)]);
  if (taken.elements > 0 && (taken.commits === 1 || !isOfPod)) return taken;
  throw new Error(`${name}: ${taken.commits} commits, ${taken.elements} elements; expected one with elements`);
}
