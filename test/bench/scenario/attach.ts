import { changeLink, createVeth, deleteLink } from "../../../kernel/route/link.ts";
import { newAddress } from "../../../kernel/route/interface_address.ts";
import { parseCidr } from "../../../kernel/ip/cidr.ts";
import { macFromBytes } from "../../../kernel/ip/mac.ts";
import type { LabPod } from "../../lab/lab.ts";
import { type Contestant, newSide, type Side, timeCall, type Timing } from "../contestant.ts";
import { type Goal, type Measured, onePair } from "../row.ts";
import { sleep } from "../sleep.ts";
import { median, type Pair } from "../statistics.ts";
import type { Context, Scenario } from "./context.ts";

/** A pause after a round, for the kernel's clean-up after a DEL. */
const SETTLE_MILLISECONDS = 20;

/**
 * ADD and DEL in the steady state: the bridge exists and has a pod, every pod is dual-stack and in a fresh namespace.
 *
 * A round is both ADDs, both DELs and the removal of a similar link by only the kernel. The pods' namespaces exist
 * until the end, so that no measurement includes their destruction. Everything is measured with the plugin server and
 * without.
 */
export const attach: Scenario = {
  name: "attach",
  run(context: Context): readonly Measured[] {
    return [
      ...rowsOf(timeRounds(context, context.ours, "attach"), ""),
      ...rowsOf(timeRounds(context, context.cold, "attach-cold"), ", cold"),
    ];
  },
};

function timeRounds(context: Context, contestant: Contestant, name: string): readonly Round[] {
  const { lab, pairs } = context;
  const ours = steadySide(context, contestant, name);
  const peer = steadySide(context, context.peer, name);
  const podsOf = (prefix: string): readonly LabPod[] =>
    Array.from({ length: pairs }, (_, i) => lab.pod(`${name}-${prefix}-${i}`));
  const ourPods = podsOf("ours");
  const peerPods = podsOf("peer");
  const bare = lab.pod(`${name}-bare`);
  return Array.from({ length: pairs }, (_, round) => {
    const both = (command: "ADD" | "DEL"): { readonly ours: Timing; readonly peer: Timing } =>
      onePair(
        round,
        () => timeCall(ours, command, ourPods[round]),
        () => timeCall(peer, command, peerPods[round]),
      );
    const result = { add: both("ADD"), del: both("DEL"), removal: timeBareRemoval(ours, bare) };
    context.progress(`${name}: ADD and DEL ${round + 1}/${pairs}`);
    sleep(SETTLE_MILLISECONDS);
    return result;
  });
}

interface Round {
  readonly add: { readonly ours: Timing; readonly peer: Timing };
  readonly del: { readonly ours: Timing; readonly peer: Timing };
  readonly removal: number;
}

/** Returns the rows of rounds. @param suffix of the titles; only rows without one have goals */
function rowsOf(rounds: readonly Round[], suffix: "" | ", cold"): readonly Measured[] {
  const removal = median(rounds.map((round) => round.removal));
  const pairsOf = (verb: "add" | "del", value: (timing: Timing) => number): readonly Pair[] =>
    rounds.map((round) => ({ ours: value(round[verb].ours), peer: value(round[verb].peer) }));
  const wall = ({ milliseconds }: Timing): number => milliseconds;
  const processor = ({ cpuMilliseconds }: Timing): number => cpuMilliseconds;
  const goalOf = (ratio: number): Goal | undefined => (suffix === "" ? { kind: "at most", ratio } : undefined);
  return [
    { title: `ADD, dual-stack${suffix}`, unit: "ms", pairs: pairsOf("add", wall), goal: goalOf(0.75) },
    { title: `ADD, processor time${suffix}`, unit: "ms", pairs: pairsOf("add", processor), goal: undefined },
    {
      title: `DEL${suffix}`,
      unit: "ms",
      pairs: pairsOf("del", wall),
      goal: goalOf(1.05),
      remark: `the kernel by itself needs ${removal.toFixed(1)} ms to remove such a link (median of ${rounds.length})`,
    },
    {
      title: `DEL without the link removal${suffix}`,
      unit: "ms",
      pairs: pairsOf("del", (timing) => wall(timing) - removal),
      goal: undefined,
      remark: "the median of the bare removal is taken from both",
    },
    { title: `DEL, processor time${suffix}`, unit: "ms", pairs: pairsOf("del", processor), goal: undefined },
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

/** Makes a link like a pod's, by netlink from this process, and returns how long RTM_DELLINK takes to remove it. */
function timeBareRemoval(side: Side, pod: LabPod): number {
  const route = side.node.route;
  const host = "bare";
  route.requestAll([
    createVeth({
      host: { name: host, mac: macFromBytes(Uint8Array.of(2, 0, 0, 0, 9, 1)) },
      peer: { name: "eth0", mac: macFromBytes(Uint8Array.of(2, 0, 0, 0, 9, 2)), netnsFd: pod.handle.fd },
      mtu: 0,
      master: side.node.link("drawbridge0").index,
    }),
    changeLink({ name: host }, { up: true, linkLocalAddress: false }),
  ]);
  const { index } = pod.link("eth0");
  pod.route.requestAll([
    changeLink({ index }, { up: true }),
    newAddress(index, parseCidr("10.244.1.250/32")),
    newAddress(index, parseCidr("fd00:244:1::fa/128")),
  ]);
  const start = performance.now();
  route.request(deleteLink({ name: host }));
  return performance.now() - start;
}
