import { type Contestant, newSide, timeCall } from "../contestant.ts";
import { interleave, type Measured } from "../row.ts";
import type { Pair } from "../statistics.ts";
import type { Context, Scenario } from "./context.ts";

/** Measures VERSION, which only starts and prints, and so shows the cost of a start. */
export const version: Scenario = {
  name: "version",
  run(context: Context): readonly Measured[] {
    const warm = timePairs(context, context.ours, "version");
    const cold = timePairs(context, context.cold, "version-cold");
    return [
      { title: "VERSION", unit: "ms", pairs: warm, goal: { kind: "at most", ratio: 3 } },
      { title: "VERSION, cold", unit: "ms", pairs: cold, goal: undefined },
    ];
  },
};

function timePairs(context: Context, contestant: Contestant, name: string): readonly Pair[] {
  const ours = newSide(context, contestant, name);
  const peer = newSide(context, context.peer, name);
  timeCall(ours, "VERSION");
  timeCall(peer, "VERSION");
  const pairs = interleave(
    context.pairs,
    () => timeCall(ours, "VERSION").milliseconds,
    () => timeCall(peer, "VERSION").milliseconds,
  );
  context.progress(`${name} ${pairs.length}/${context.pairs}`);
  return pairs;
}
