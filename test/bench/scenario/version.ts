import { newSide, timeCall } from "../contestant.ts";
import type { Measured } from "../row.ts";
import { interleave } from "../row.ts";
import type { Context, Scenario } from "./context.ts";

/** VERSION does nothing but start and print: it shows what a start costs. */
export const version: Scenario = {
  name: "version",
  run(context: Context): readonly Measured[] {
    const ours = newSide(context, context.ours, "version");
    const peer = newSide(context, context.peer, "version");
    timeCall(ours, "VERSION");
    timeCall(peer, "VERSION");
    const pairs = interleave(
      context.pairs,
      () => timeCall(ours, "VERSION").milliseconds,
      () => timeCall(peer, "VERSION").milliseconds,
    );
    context.progress(`VERSION ${pairs.length}/${context.pairs}`);
    return [{ title: "VERSION", unit: "ms", pairs, goal: { kind: "at most", ratio: 3 } }];
  },
};
