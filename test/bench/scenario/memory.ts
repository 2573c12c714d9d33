import { readFileSync } from "node:fs";
import type { LabPod } from "../../lab/lab.ts";
import { pollEnd, startProgram } from "../../lab/posix_spawn.ts";
import { type Contestant, demandSuccess, newSide, programFor, type Side, timeCall } from "../contestant.ts";
import { childrenOf } from "../process_usage.ts";
import { compared, interleave, type Row } from "../row.ts";
import { type Context, PEER, type Scenario } from "./context.ts";

/**
 * Measures the peak memory of an ADD: the largest resident set of the plugin; for the reference plugin with that of the
 * host-local that it waits for.
 *
 * VmHWM is read again and again until the process ends. It only grows, so the last reading is the peak except for the
 * last fraction of a millisecond. The kernel's own account (ru_maxrss) cannot be used: it starts with the peak of the
 * process that called posix_spawn, which is this process (exec_mmap, fs/exec.c).
 */
export const memory: Scenario = (context: Context): readonly Row[] => {
  const measure = (contestant: Contestant): (() => number) => {
    const side = newSide(context, contestant, "memory");
    const pod = context.lab.pod(`memory-${contestant.name}`);
    return () => peakOfAdd(side, pod);
  };
  const pairs = interleave(Math.min(context.pairs, ENOUGH), measure(context.ours), measure(context.peer));
  context.progress(`peak memory ${pairs.length}/${pairs.length}`);
  return [
    { ...compared("peak memory of an ADD", "MB", PEER, pairs), remark: "bridge and host-local counted together" },
  ];
};

/** A number of measurements that is enough, since the peak hardly varies. */
const ENOUGH = 10;
const SMALL_MEGABYTES = 1;

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

/**
 * Returns VmHWM in MB; undefined when the process has ended. For a small process it may lack most pages, which each
 * processor counts for itself (percpu_counter), so these are counted one by one.
 */
function residentPeak(pid: number): number | undefined {
  const peak = megabytesIn(`/proc/${pid}/status`, "VmHWM");
  if (peak === undefined || peak > SMALL_MEGABYTES) return peak;
  return Math.max(peak, megabytesIn(`/proc/${pid}/smaps_rollup`, "Rss") ?? 0);
}

/** Returns a field of a file of /proc in MB; undefined when the file has gone with its process, or has no such field. */
function megabytesIn(file: string, field: string): number | undefined {
  try {
    const kilobytes = new RegExp(`^${field}:\\s*([0-9]+) kB$`, "m").exec(readFileSync(file, "latin1"))?.[1];
    return kilobytes === undefined ? undefined : (Number(kilobytes) * 1024) / 1e6;
  } catch {
    return undefined;
  }
}
