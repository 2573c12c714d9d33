import type { LabPod } from "../../lab/lab.ts";
import { newSide, type Side, together } from "../contestant.ts";
import { compared, interleave, type Row } from "../row.ts";
import { withPolicyd } from "../with_policyd.ts";
import { type Context, PEER, type Scenario } from "./context.ts";

interface Round {
  readonly add: number;
  readonly del: number;
}

const COUNT = 30;
const GOAL = { ratioAtMost: 0.75 };

/**
 * Measures ADDs at once and then DELs at once, as when a node is drained; ours with policyd, which removes the links
 * together. The node and its daemon stay, as both have been there for long where this matters.
 */
export const parallelWithPolicyd: Scenario = (context: Context): readonly Row[] => {
  const pods = Array.from({ length: COUNT }, (_, i) => context.lab.pod(`policyd-${i}`));
  const peer = newSide(context, context.peer, "policyd");
  const rounds = withPolicyd(context, newSide(context, context.ours, "policyd"), (ours) => {
    for (const side of [ours, peer]) timeRound(side, pods);
    return interleave(
      context.pairs,
      () => timeRound(ours, pods),
      () => timeRound(peer, pods),
      (done) => context.progress(`${COUNT} ADDs and DELs at once ${done}/${context.pairs}`),
    );
  });
  return (["add", "del"] as const).map((verb) => {
    const pairs = rounds.map(({ ours, peer: theirs }) => ({ ours: ours[verb], peer: theirs[verb] }));
    return compared(`${COUNT} ${verb.toUpperCase()}s at once, with policyd`, "ms", PEER, pairs, GOAL);
  });
};

/** Returns the milliseconds from the start of the first call of a verb until the end of the last. */
function timeRound(side: Side, pods: readonly LabPod[]): Round {
  const add = together(side, "ADD", pods);
  const del = together(side, "DEL", pods);
  const left = pods.filter((pod) => pod.links().some(({ name }) => name === "eth0"));
  if (left.length > 0) throw new Error(`${side.contestant.name}: ${left.length} pods still have their link after DEL`);
  return { add, del };
}
