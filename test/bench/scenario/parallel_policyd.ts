import type { LabPod } from "../../lab/lab.ts";
import { newSide, type Side, together } from "../contestant.ts";
import { compared, interleave, type Row } from "../row.ts";
import { withPolicyd } from "../with_policyd.ts";
import { type Context, PEER, type Scenario } from "./context.ts";

interface Round {
  readonly add: number;
  readonly del: number;
}

/**
 * Measures this number of ADDs at once and then of DELs at once, as when a node is drained; ours with policyd, which
 * removes the links together. The node and its daemon stay, as both have been there for long where this matters.
 *
 * @param mostOfDel the goal of the DELs: the largest ratio
 */
export function parallelWithPolicyd(count: number, mostOfDel: number): Scenario {
  return (context: Context): readonly Row[] => {
    const pods = Array.from({ length: count }, (_, i) => context.lab.pod(`policyd-${count}-${i}`));
    const peer = newSide(context, context.peer, "policyd");
    const rounds = withPolicyd(context, newSide(context, context.ours, "policyd"), [], (ours) => {
      for (const side of [ours, peer]) timeRound(side, pods);
      return interleave(
        context.pairs,
        () => timeRound(ours, pods),
        () => timeRound(peer, pods),
        (done) => context.progress(`${count} ADDs and DELs at once ${done}/${context.pairs}`),
      );
    });
    const row = (verb: keyof Round, most: number): Row => {
      const pairs = rounds.map(({ ours, peer: theirs }) => ({ ours: ours[verb], peer: theirs[verb] }));
      const title = `${count} ${verb.toUpperCase()}s at once, with policyd`;
      return compared(title, "ms", PEER, pairs, { ratioAtMost: most });
    };
    return [row("add", 0.75), row("del", mostOfDel)];
  };
}

/** Returns the milliseconds from the start of the first call of a verb until the end of the last. */
function timeRound(side: Side, pods: readonly LabPod[]): Round {
  const add = together(side, "ADD", pods);
  const del = together(side, "DEL", pods);
  const left = pods.filter((pod) => pod.links().some(({ name }) => name === "eth0"));
  if (left.length > 0) throw new Error(`${side.contestant.name}: ${left.length} pods still have their link after DEL`);
  return { add, del };
}
