import { readFileSync, readdirSync } from "node:fs";
import type { LabPod } from "../../lab/lab.ts";
import { pollEnd, startProgram } from "../../lab/posix_spawn.ts";
import type { Contestant, Side } from "../contestant.ts";
import { demandSuccess, newSide, programFor, timeCall } from "../contestant.ts";
import type { Measured } from "../row.ts";
import { interleave } from "../row.ts";
import type { Context, Scenario } from "./context.ts";

/**
 * Peak memory of an ADD: the largest resident set of the plugin plus, for the reference plugin, that of the host-local
 * it waits for.
 *
 * VmHWM is read again and again until the process ends. It only grows, so the last reading is the peak but for the
 * last fraction of a millisecond. The kernel's own account (ru_maxrss) is no use: it starts with the peak of whoever
 * called posix_spawn, which is this process (exec_mmap, fs/exec.c).
 */
export const memory: Scenario = {
  name: "memory",
  run(context: Context): readonly Measured[] {
    const measure = (contestant: Contestant): ((round: number) => number) => {
      const side = newSide(context, contestant, "memory");
      const pod = context.lab.pod(`memory-${contestant.name}`);
      return () => peakOfAdd(side, pod);
    };
    const pairs = interleave(Math.min(context.pairs, ENOUGH), measure(context.ours), measure(context.peer));
    context.progress(`peak memory ${pairs.length}/${pairs.length}`);
    const remark =
      "resident pages, of which most of ours are the executable's, shared with the page cache and among calls; " +
      "bridge and host-local counted together";
    return [{ title: "peak memory of an ADD", unit: "MB", pairs, goal: undefined, remark }];
  },
};

/** It hardly varies. */
const ENOUGH = 10;

function peakOfAdd(side: Side, pod: LabPod): number {
  const program = programFor(side, "ADD", pod);
  const pid = startProgram(side.node, program);
  const peaks = new Map<number, number>();
  for (;;) {
    for (const process of [pid, ...childrenOf(pid)]) {
      const peak = residentPeak(process);
      if (peak !== undefined) peaks.set(process, peak);
    }
    const ended = pollEnd(pid);
    if (ended === undefined) continue;
    demandSuccess(program, ended.exitCode);
    timeCall(side, "DEL", pod);
    return [...peaks.values()].reduce((sum, peak) => sum + peak, 0);
  }
}

/** VmHWM in MB; undefined when the process has ended. */
function residentPeak(pid: number): number | undefined {
  const kilobytes = /^VmHWM:\s*(?<kilobytes>[0-9]+) kB$/m.exec(read(`/proc/${pid}/status`))?.groups?.["kilobytes"];
  return kilobytes === undefined ? undefined : (Number(kilobytes) * 1024) / 1e6;
}

/** Children of any of its threads: a Go program starts them from whichever it runs on. */
function childrenOf(pid: number): readonly number[] {
  return threadsOf(pid)
    .map((thread) => read(`/proc/${pid}/task/${thread}/children`))
    .flatMap((text) => text.split(" ").filter(Boolean).map(Number));
}

function threadsOf(pid: number): readonly string[] {
  try {
    return readdirSync(`/proc/${pid}/task`);
  } catch {
    return [];
  }
}

/** The text of a file; nothing when it has gone with its process. */
function read(file: string): string {
  try {
    return readFileSync(file, "latin1");
  } catch {
    return "";
  }
}
