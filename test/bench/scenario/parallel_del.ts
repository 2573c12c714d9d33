import type { LabPod } from "../../lab/lab.ts";
import { newSide, type Side, together } from "../contestant.ts";
import { compared, interleave, type Row } from "../row.ts";
import { withPolicyd } from "../with_policyd.ts";
import { type Context, PEER, type Scenario } from "./context.ts";

/**
 * Measures this number of DELs at once, as when a node is drained; ours with policyd, which removes the links together.
 */
export function parallelDel(count: number): Scenario {
  return (context: Context): readonly Row[] => {
    const pods = Array.from({ length: count }, (_, i) => context.lab.pod(`del-${count}-${i}`));
    const peer = (round: number): number => {
      const side = newSide(context, context.peer, `del-${count}-${round}`);
      try {
        return timeDels(side, pods);
      } finally {
        context.lab.remove(side.node);
      }
    };
    const pairs = onDaemonNode(context, (side) => {
      timeDels(side, pods);
      return interleave(
        context.pairs,
        () => timeDels(side, pods),
        peer,
        (done) => context.progress(`${count} DELs at once ${done}/${context.pairs}`),
      );
    });
    for (const pod of pods) context.lab.remove(pod);
    const row = compared(`${count} DELs at once, with policyd`, "ms", PEER, pairs, { ratioAtMost: 0.3 });
    return [{ ...row, remark: "the daemon has run for one such round before" }];
  };
}

/**
 * Returns the milliseconds from the start of the first DEL until the end of the last, on a node with all pods attached.
 */
function timeDels(side: Side, pods: readonly LabPod[]): number {
  together(side, "ADD", pods);
  const milliseconds = together(side, "DEL", pods);
  const left = pods.filter((pod) => pod.links().some(({ name }) => name === "eth0"));
  if (left.length > 0) throw new Error(`${side.contestant.name}: ${left.length} pods still have their link after DEL`);
  return milliseconds;
}

/** Runs an action on a node of ours with a daemon that stays, since a drained node has one that has run for long. */
function onDaemonNode<T>(context: Context, action: (side: Side) => T): T {
  const side = newSide(context, context.ours, "del");
  try {
    return withPolicyd(context, side, [], action);
  } finally {
    context.lab.remove(side.node);
  }
}
