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
 * destruction. Everything is measured with the plugin server and without.
 */
export const attach: Scenario = (context: Context): readonly Row[] => [
  ...rowsOf(timeRounds(context, context.ours, "attach"), ""),
  ...rowsOf(timeRounds(context, context.cold, "attach-cold"), ", cold"),
];

function timeRounds(context: Context, contestant: Contestant, name: string): readonly Round[] {
  const { lab, pairs } = context;
  const ours = steadySide(context, contestant, name);
  const peer = steadySide(context, context.peer, name);
  return Array.from({ length: pairs }, (_, round) => {
    const [ourPod, peerPod] = [lab.pod(`${name}-ours-${round}`), lab.pod(`${name}-peer-${round}`)];
    const both = (command: "ADD" | "DEL"): Halves<Timing> =>
      onePair(
        round,
        () => timeCall(ours, command, ourPod),
        () => timeCall(peer, command, peerPod),
      );
    const result = { add: both("ADD"), del: both("DEL") };
    context.progress(`${name}: ADD and DEL ${round + 1}/${pairs}`);
    sleep(SETTLE_MILLISECONDS);
    return result;
  });
}

interface Round {
  readonly add: Halves<Timing>;
  readonly del: Halves<Timing>;
}

/** Returns the rows of rounds. @param suffix of the titles; only rows without one have goals */
function rowsOf(rounds: readonly Round[], suffix: "" | ", cold"): readonly Row[] {
  const row = (title: string, verb: keyof Round, value: keyof Timing, most?: number): Row =>
    compared(
      `${title}${suffix}`,
      "ms",
      PEER,
      rounds.map((round) => ({ ours: round[verb].ours[value], peer: round[verb].peer[value] })),
      most === undefined || suffix !== "" ? undefined : { ratioAtMost: most },
    );
  return [
    row("ADD, dual-stack", "add", "milliseconds", 0.75),
    row("ADD, processor time", "add", "cpuMilliseconds"),
    row("DEL", "del", "milliseconds", 1.05),
    row("DEL, processor time", "del", "cpuMilliseconds"),
  ];
}

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
