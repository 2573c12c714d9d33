import { type Contestant, newSide, type Side, timeCall, type Timing } from "../contestant.ts";
import { compared, type Halves, onePair, type Row } from "../row.ts";
import { sleep } from "../sleep.ts";
import { type Context, PEER, type Scenario } from "./context.ts";

/** A pause after a round, for the kernel's clean-up after a DEL. */
const SETTLE_MILLISECONDS = 20;

/**
 * ADD and DEL in the steady state: the bridge exists and has a pod, every pod is dual-stack and in a fresh namespace.
 *
 * A round is both ADDs and both DELs. The pods' namespaces exist until the end, so that no measurement includes their
 * destruction.
 */
export const attach: Scenario = (context: Context): readonly Row[] => {
  const { lab, pairs } = context;
  const ours = steadySide(context, context.ours, "attach");
  const peer = steadySide(context, context.peer, "attach");
  const rounds = Array.from({ length: pairs }, (_, round) => {
    const [ourPod, peerPod] = [lab.pod(`attach-ours-${round}`), lab.pod(`attach-peer-${round}`)];
    const both = (command: "ADD" | "DEL"): Halves<Timing> =>
      onePair(
        round,
        () => timeCall(ours, command, ourPod),
        () => timeCall(peer, command, peerPod),
      );
    const result = { add: both("ADD"), del: both("DEL") };
    context.progress(`ADD and DEL ${round + 1}/${pairs}`);
    sleep(SETTLE_MILLISECONDS);
    return result;
  });
  const row = (title: string, verb: "add" | "del", value: keyof Timing, most?: number): Row =>
    compared(
      title,
      "ms",
      PEER,
      rounds.map((round) => ({ ours: round[verb].ours[value], peer: round[verb].peer[value] })),
      most === undefined ? undefined : { ratioAtMost: most },
    );
  return [
    row("ADD, dual-stack", "add", "milliseconds", 0.75),
    row("ADD, processor time", "add", "cpuMilliseconds"),
    row("DEL", "del", "milliseconds", 0.9),
    row("DEL, processor time", "del", "cpuMilliseconds"),
  ];
};

/** Returns a node with a pod that stays; a second pod came and went, so that every file of the store exists. */
function steadySide(context: Context, contestant: Contestant, name: string): Side {
  const side = newSide(context, contestant, name);
  const [resident, visitor] = ["resident", "visitor"].map((pod) =>
    context.lab.pod(`${name}-${contestant.name}-${pod}`),
  );
  timeCall(side, "ADD", resident);
  timeCall(side, "ADD", visitor);
  timeCall(side, "DEL", visitor);
  return side;
}
