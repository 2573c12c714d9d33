import type { ObjectChange } from "../../../objects/model.ts";
import type { Lab } from "../../lab/lab.ts";
import { type Halves, measured, onePairInTurn, type Row } from "../row.ts";
import { type BenchPod, changeTo, pertinentPod, podManifest, relabelled, removalOf, sizeText } from "./cluster.ts";
import { loadOurs } from "./loaded.ts";
import type { Ours, Taken } from "./ours.ts";
import type { Plan } from "./plan.ts";

/** The goals: milliseconds in the kernel, and those that a large cluster may cost more than a small one. */
const GOAL = 0.2;
const DIFFERENCE_GOAL = 0.1;
const FIRST_NEW_POD = 20_000;

/** A change of one pod among many, as an event. */
interface ChangeKind {
  readonly name: string;
  readonly change: (pod: BenchPod) => ObjectChange;
}

/**
 * The kinds, to be made in this order for one pod after the other: later ones change and remove what earlier ones
 * added.
 */
const CHANGE_KINDS: readonly ChangeKind[] = [
  { name: "a pod added elsewhere", change: (pod) => changeTo(podManifest(pod)) },
  { name: "a pod relabelled elsewhere", change: (pod) => changeTo(podManifest(relabelled(pod))) },
  { name: "a pod removed elsewhere", change: (pod) => removalOf(pod) },
];

/** Measures changes of one pod among many, by our layout on a large and on a small cluster in turn. */
export async function singleChanges(lab: Lab, { large, small, changes }: Plan): Promise<readonly Row[]> {
  using largeNode = await loadOurs(lab, large);
  using smallNode = await loadOurs(lab, small);
  const taken = CHANGE_KINDS.map((kind) => ({ ...kind, pairs: [] as Halves<Taken>[] }));
  for (let number = 0; number < changes; number++) {
    // A new pod, of another namespace for each number.
    const pod = pertinentPod(FIRST_NEW_POD + number);
    for (const { name, change, pairs } of taken) {
      const on = (contestant: Ours) => (): Promise<Taken> => changeOnce(contestant, name, change(pod));
      pairs.push(await onePairInTurn(number, on(largeNode.contestant), on(smallNode.contestant)));
    }
  }
  return taken.flatMap(({ name, pairs }) => {
    const values = (of: keyof Halves<Taken>, what: "inKernel" | "whole"): readonly number[] =>
      pairs.map((pair) => pair[of][what]);
    const difference = `${name}: in the kernel, ${large.pods.toLocaleString("en")} pods less ${small.pods.toLocaleString("en")}`;
    const differences = pairs.map(({ ours, peer }) => ours.inKernel - peer.inKernel);
    return [
      measured(`${name}, ${sizeText(large)}: in the kernel`, "ms", values("ours", "inKernel"), GOAL),
      measured(`${name}, ${sizeText(small)}: in the kernel`, "ms", values("peer", "inKernel"), GOAL),
      measured(difference, "ms", differences, DIFFERENCE_GOAL),
      measured(`${name}, ${sizeText(large)}: from the object to the commit`, "ms", values("ours", "whole")),
    ];
  });
}

/** Makes one change. @throws Error when it makes more than one commit, or changes no element */
async function changeOnce(ours: Ours, name: string, change: ObjectChange): Promise<Taken> {
  const taken = await ours.changeOnce([change]);
  if (taken.elements > 0 && taken.commits === 1) return taken;
  throw new Error(`${name}: ${taken.commits} commits, ${taken.elements} elements; expected one with elements`);
}
