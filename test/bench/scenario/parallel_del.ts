import type { LabPod } from "../../lab/lab.ts";
import type { Side } from "../contestant.ts";
import { newSide, together } from "../contestant.ts";
import type { Measured } from "../row.ts";
import { interleave } from "../row.ts";
import { withPolicyd } from "../with_policyd.ts";
import type { Context, Scenario } from "./context.ts";

/** So many DELs at once, as when a node is drained; ours with policyd, which removes the links together. */
export function parallelDel(count: number): Scenario {
  return {
    name: `parallel-del-${count}`,
    run(context: Context): readonly Measured[] {
      const pods = Array.from({ length: count }, (_, i) => context.lab.pod(`del-${count}-${i}`));
      const ours = (round: number): number => onDaemonNode(context, round, (side) => timeDels(side, pods));
      const peer = (round: number): number => {
        const side = newSide(context, context.peer, `del-${count}-${round}`);
        try {
          return timeDels(side, pods);
        } finally {
          context.lab.remove(side.node);
        }
      };
      const pairs = interleave(context.pairs, ours, peer, (done) =>
        context.progress(`${count} DELs at once ${done}/${context.pairs}`),
      );
      for (const pod of pods) context.lab.remove(pod);
      const title = `${count} DELs at once, with policyd`;
      return [{ title, unit: "ms", pairs, goal: { kind: "at most", ratio: 0.3 } }];
    },
  };
}

/** Milliseconds from the start of the first DEL until the end of the last, on a node with all pods attached. */
function timeDels(side: Side, pods: readonly LabPod[]): number {
  together(side, "ADD", pods);
  const milliseconds = together(side, "DEL", pods);
  const left = pods.filter((pod) => pod.links().some(({ name }) => name === "eth0"));
  if (left.length > 0) throw new Error(`${side.contestant.name}: ${left.length} pods still have their link after DEL`);
  return milliseconds;
}

/** Runs an action on a node of ours with a daemon of its own. */
function onDaemonNode(context: Context, round: number, action: (side: Side) => number): number {
  const side = newSide(context, context.ours, `del-${round}`);
  try {
    return withPolicyd(context, side, [], action);
  } finally {
    context.lab.remove(side.node);
  }
}
