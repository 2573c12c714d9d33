import { readdirSync, readFileSync } from "node:fs";

/** USER_HZ, the unit in which proc(5) counts. */
const TICKS_PER_SECOND = 100;
const SAMPLE_MILLISECONDS = 25;

/**
 * Returns seconds of the processor that a process has used, together with all children that have ended and that it has
 * waited for: the fields utime, stime, cutime and cstime of proc(5). kube-proxy waits for each `nft` that it starts.
 */
export function processorSeconds(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
  // The first field after the name, which may have spaces in it, is field 3.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const ticks = [11, 12, 13, 14].reduce((sum, index) => sum + Number(fields[index]), 0);
  return ticks / TICKS_PER_SECOND;
}

/** Returns the processor time so far of all threads of a process, in nanoseconds, as the kernel counts it exactly (sched_info of each). */
export function nanoseconds(pid: number | undefined): number {
  return readdirSync(`/proc/${pid}/task`)
    .map((thread) => Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, "latin1").split(" ")[0]))
    .reduce((sum, value) => sum + value, 0);
}

/** Megabytes of resident memory. */
export interface Memory {
  readonly now: number;
  /** The largest memory that the process itself has had. */
  readonly peak: number;
  /** The largest memory that it and its children had at one time, by samples. */
  readonly peakWithChildren: number;
}

/** Samples the memory of a process and its children every 25 ms. */
export class MemoryWatch implements Disposable {
  readonly #pid: number;
  readonly #timer: NodeJS.Timeout;
  #together = 0;

  constructor(pid: number) {
    this.#pid = pid;
    this.#timer = setInterval(() => this.#sample(), SAMPLE_MILLISECONDS);
  }

  memory(): Memory {
    const { now, peak } = residentOf(this.#pid) ?? { now: Number.NaN, peak: Number.NaN };
    return { now, peak, peakWithChildren: Math.max(peak, this.#together) };
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }

  #sample(): void {
    const own = residentOf(this.#pid);
    if (own === undefined) return;
    const children = childrenOf(this.#pid).flatMap((pid) => residentOf(pid) ?? []);
    if (children.length === 0) return;
    this.#together = Math.max(
      this.#together,
      children.reduce((sum, { now }) => sum + now, own.now),
    );
  }
}

/** Returns the resident memory of a process in megabytes; undefined when it has ended. */
export function residentOf(pid: number): { readonly now: number; readonly peak: number } | undefined {
  try {
    const status = readFileSync(`/proc/${pid}/status`, "latin1");
    const of = (name: string): number => Number(new RegExp(`^${name}:\\s+(\\d+) kB`, "m").exec(status)?.[1]) / 1024;
    const found = { now: of("VmRSS"), peak: of("VmHWM") };
    // A process that has ended has no memory.
    return Number.isNaN(found.now) ? undefined : found;
  } catch {
    return undefined;
  }
}

/** Returns the children of all threads of a process: a Go program starts them from any thread. */
export function childrenOf(pid: number): readonly number[] {
  try {
    return readdirSync(`/proc/${pid}/task`).flatMap((thread) =>
      readFileSync(`/proc/${pid}/task/${thread}/children`, "latin1").split(" ").filter(Boolean).map(Number),
    );
  } catch {
    return [];
  }
}
