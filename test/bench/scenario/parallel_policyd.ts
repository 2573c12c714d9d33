import { mkdirSync } from "node:fs";
import process from "node:process";
import type { LabPod } from "../../lab/lab.ts";
import { BUNDLE, startDaemon } from "../../support/daemon/policyd.ts";
import { newSide, type Side, together } from "../contestant.ts";
import { imageStart } from "../daemon/image_start.ts";
import { compared, interleave, type Row } from "../row.ts";
import { type Context, PEER, type Scenario } from "./context.ts";

interface Round {
  readonly add: number;
  readonly del: number;
}

const COUNT = 30;
const GOAL = { ratioAtMost: 0.75 };

/**
 * Measures ADDs at once and then DELs at once, as when a node is drained; ours with policyd, which removes the links
 * together. The node and its daemon stay, as both have been there for long where this matters.
 */
export const parallelWithPolicyd: Scenario = async (context: Context): Promise<readonly Row[]> => {
  const pods = Array.from({ length: COUNT }, (_, i) => context.lab.pod(`policyd-${i}`));
  const peer = newSide(context, context.peer, "policyd");
  const side = newSide(context, context.ours, "policyd");
  const [objects, socket] = [`${context.lab.scratch}/objects`, `${context.lab.scratch}/run/policyd.sock`];
  mkdirSync(objects);
  const { nodeOptions, environment } = imageStart();
  Object.assign(process.env, environment);
  const places = [`--objects=${objects}`, `--state-directory=${side.directory}`];
  const args = ["--node-name=bench", ...places, `--network-namespace=${side.node.path}`, "--log-level=error"];
  const daemon = startDaemon(socket, args, BUNDLE, nodeOptions);
  try {
    await daemon.statusWhen(({ isSynced }) => isSynced, "synced");
    const ours = { ...side, configuration: { ...side.configuration, policyd: { socket } } };
    for (const one of [ours, peer]) timeRound(one, pods);
    const rounds = interleave(
      context.pairs,
      () => timeRound(ours, pods),
      () => timeRound(peer, pods),
      (done) => context.progress(`${COUNT} ADDs and DELs at once ${done}/${context.pairs}`),
    );
    return (["add", "del"] as const).map((verb) => {
      const pairs = rounds.map((round) => ({ ours: round.ours[verb], peer: round.peer[verb] }));
      return compared(`${COUNT} ${verb.toUpperCase()}s at once, with policyd`, "ms", PEER, pairs, GOAL);
    });
  } finally {
    await daemon.kill("SIGKILL");
  }
};

/** Returns the milliseconds from the start of the first call of a verb until the end of the last. */
function timeRound(side: Side, pods: readonly LabPod[]): Round {
  const add = together(side, "ADD", pods);
  const del = together(side, "DEL", pods);
  const left = pods.filter((pod) => pod.links().some(({ name }) => name === "eth0"));
  if (left.length > 0) throw new Error(`${side.contestant.name}: ${left.length} pods still have their link after DEL`);
  return { add, del };
}
