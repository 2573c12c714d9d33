import { newSide, timeCall } from "../contestant.ts";
import { compared, interleave, type Row } from "../row.ts";
import { type Context, PEER, type Scenario } from "./context.ts";

/** Measures VERSION, which only starts and prints, and so shows the cost of a start. */
export const version: Scenario = (context: Context): readonly Row[] => {
  const ours = newSide(context, context.ours, "version");
  const peer = newSide(context, context.peer, "version");
  timeCall(ours, "VERSION");
  timeCall(peer, "VERSION");
  const pairs = interleave(
    context.pairs,
    () => timeCall(ours, "VERSION").milliseconds,
    () => timeCall(peer, "VERSION").milliseconds,
  );
  context.progress(`version ${pairs.length}/${context.pairs}`);
  return [compared("VERSION", "ms", PEER, pairs, { ratioAtMost: 1.2 })];
};
