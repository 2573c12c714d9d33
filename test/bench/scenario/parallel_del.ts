import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import process from "node:process";
import { askPolicyd } from "../../../cni/policyd_client.ts";
import { DrawbridgeError } from "../../../kernel/error.ts";
import type { LabPod } from "../../lab/lab.ts";
import { startProgram, waitFor } from "../../lab/posix_spawn.ts";
import { BUNDLE } from "../../support/policyd.ts";
import type { Side } from "../contestant.ts";
import { demandSuccess, newSide, programFor } from "../contestant.ts";
import type { Measured } from "../row.ts";
import { interleave } from "../row.ts";
import { sleep } from "../sleep.ts";
import type { Context, Scenario } from "./context.ts";

const START_MILLISECONDS = 10_000;

/** So many DELs at once, as when a node is drained; ours with policyd, which removes the links together. */
export function parallelDel(count: number): Scenario {
  return {
    name: `parallel-del-${count}`,
    run(context: Context): readonly Measured[] {
      const pods = Array.from({ length: count }, (_, i) => context.lab.pod(`del-${count}-${i}`));
      const ours = (round: number): number => withPolicyd(context, round, (side) => timeDels(side, pods));
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

function together(side: Side, command: "ADD" | "DEL", pods: readonly LabPod[]): number {
  const programs = pods.map((pod) => programFor(side, command, pod));
  const start = performance.now();
  const processes = programs.map((program) => startProgram(side.node, program));
  const ends = processes.map(waitFor);
  const milliseconds = performance.now() - start;
  for (const [i, program] of programs.entries()) demandSuccess(program, ends[i]?.exitCode ?? null);
  return milliseconds;
}

/** Runs an action on a node of ours with a daemon of its own. */
function withPolicyd(context: Context, round: number, action: (side: Side) => number): number {
  const side = newSide(context, context.ours, `del-${round}`);
  const directory = mkdtempSync(path.join(tmpdir(), "drawbridge-bench-"));
  mkdirSync(`${directory}/objects`);
  const socket = `${directory}/run/policyd.sock`;
  const daemon = spawn(
    process.execPath,
    [
      BUNDLE,
      "--node-name=bench",
      `--objects=${directory}/objects`,
      `--socket=${socket}`,
      `--state-directory=${side.directory}`,
      `--network-namespace=${side.node.path}`,
      "--log-level=error",
    ],
    { cwd: "/", stdio: "ignore" },
  );
  try {
    waitUntilSynced(context, socket);
    return action({ ...side, configuration: { ...side.configuration, policyd: { socket } } });
  } finally {
    daemon.kill("SIGKILL");
    context.lab.remove(side.node);
    rmSync(directory, { recursive: true, force: true });
  }
}

/** @throws Error when it does not answer in {@link START_MILLISECONDS} */
function waitUntilSynced(context: Context, socket: string): void {
  const deadline = performance.now() + START_MILLISECONDS;
  while (performance.now() < deadline) {
    try {
      const reply = askPolicyd(context.lab.calls, socket, { type: "status" }, 1000);
      if (reply.type === "status" && reply.status.isSynced) return;
    } catch (error) {
      if (!(error instanceof DrawbridgeError)) throw error;
    }
    sleep(5);
  }
  throw new Error(`policyd did not start in ${START_MILLISECONDS} ms`);
}
