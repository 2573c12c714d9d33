import { type Contestant, newSide, timeCall } from "../contestant.ts";
import { compared, interleave, type Row } from "../row.ts";
import type { Pair } from "../statistics.ts";
import { type Context, PEER, type Scenario } from "./context.ts";

/** Measures VERSION, which only starts and prints, and so shows the cost of a start. */
export const version: Scenario = (context: Context): readonly Row[] => [
  compared("VERSION", "ms", PEER, timePairs(context, context.ours, "version"), { ratioAtMost: 3 }),
  compared("VERSION, cold", "ms", PEER, timePairs(context, context.cold, "version-cold")),
];

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
