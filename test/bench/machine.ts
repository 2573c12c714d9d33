import os from "node:os";
import process from "node:process";

/** The machine of a measurement. */
export interface Machine {
  readonly processor: string;
  readonly processors: number;
  readonly memoryGigabytes: number;
  readonly kernel: string;
  readonly architecture: string;
  /** The runtime of this benchmark, not that of the plugins. */
  readonly runtime: string;
  /** The load of the last minute at the beginning: a load near the number of processors spoils a measurement. */
  readonly load: number;
}

export function thisMachine(): Machine {
  return {
    processor: os.cpus()[0]?.model.trim() ?? "unknown processor",
    processors: os.availableParallelism(),
    memoryGigabytes: Math.round(os.totalmem() / 1e9),
    kernel: os.release(),
    architecture: os.arch(),
    runtime: `Node ${process.versions.node}`,
    load: os.loadavg()[0] ?? 0,
  };
}
