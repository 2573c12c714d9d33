import { type Contestant, resultOfAdd, timeCall } from "../contestant.ts";
import { compared, interleave, type Row } from "../row.ts";
import { steadySide } from "./attach.ts";
import { type Context, PEER, type Scenario } from "./context.ts";

/** Measures the verbs that only look: CHECK of a pod, which CRI-O makes after each ADD, and STATUS, which is polled. */
export const checks: Scenario = (context: Context): readonly Row[] =>
  (["CHECK", "STATUS"] as const).map((command) => {
    const measure = (contestant: Contestant): (() => number) => {
      const side = steadySide(context, contestant, command.toLowerCase());
      const pod = context.lab.pod(`${command.toLowerCase()}-${contestant.name}`);
      const further = command === "CHECK" ? { prevResult: resultOfAdd(side, pod) } : {};
      return () => timeCall(side, command, command === "CHECK" ? pod : undefined, further).milliseconds;
    };
    return compared(command, "ms", PEER, interleave(context.pairs, measure(context.ours), measure(context.peer)));
  });
