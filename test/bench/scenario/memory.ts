import type { LabPod } from "../../lab/lab.ts";
import { pollEnd, startProgram } from "../../lab/posix_spawn.ts";
import { type Contestant, demandSuccess, newSide, programFor, type Side, timeCall } from "../contestant.ts";
import { megabytesIn, readIfThere, threadsOf } from "../../support/process_files.ts";
import { compared, interleave, type Row } from "../row.ts";
import type { Pair } from "../statistics.ts";
import { type Context, PEER, type Scenario } from "./context.ts";

/**
 * Measures the peak memory of an ADD: the largest resident set of the shim, or without a plugin server of the plugin
 * that it executes; for the reference plugin with that of the host-local that it waits for. Then it measures the memory
 * of the server, which also exists between calls.
 *
 * VmHWM is read again and again until the process ends. It only grows, so the last reading is the peak except for the
 * last fraction of a millisecond. The kernel's own account (ru_maxrss) cannot be used: it starts with the peak of the
 * process that called posix_spawn, which is this process (exec_mmap, fs/exec.c).
 */
export const memory: Scenario = (context: Context): readonly Row[] => {
  const measure = (contestant: Contestant, name: string): ((round: number) => number) => {
    const side = newSide(context, contestant, name);
    const pod = context.lab.pod(`${name}-${contestant.name}`);
    return () => peakOfAdd(side, pod);
  };
  const pairsWith = (contestant: Contestant, name: string): readonly Pair[] =>
    interleave(Math.min(context.pairs, ENOUGH), measure(contestant, name), measure(context.peer, name));
  const shim = pairsWith(context.ours, "memory");
  const resident = context.ours.server.residentMegabytes;
  if (resident === undefined) throw new Error("no plugin server after an ADD: its memory cannot be measured");
  const plugin = pairsWith(context.cold, "memory-cold");
  context.progress(`peak memory ${plugin.length}/${plugin.length}`);
  const shared = "most of it are the executable's pages, shared with the page cache and among processes";
  const row = (title: string, pairs: readonly Pair[], remark: string): Row => ({
    ...compared(title, "MB", PEER, pairs),
    remark,
  });
  return [
    row("peak memory of an ADD", shim, "the shim's own; bridge and host-local counted together"),
    row("peak memory of an ADD, cold", plugin, shared),
    row(
      "memory of the plugin server",
      shim.map(({ peer }) => ({ ours: resident, peer })),
      `resident until a minute after the last call; ${shared}; the peer has no server: its peak of an ADD is given`,
    ),
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

/** Returns the children of all threads of a process: a Go program starts them from any thread. */
function childrenOf(pid: number): readonly number[] {
  return threadsOf(pid)
    .map((thread) => readIfThere(`/proc/${pid}/task/${thread}/children`))
    .flatMap((text) => text.split(" ").filter(Boolean).map(Number));
}
