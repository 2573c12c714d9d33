import { writeFileSync } from "node:fs";
import { monitorEventLoopDelay } from "node:perf_hooks";
import process from "node:process";

/*
 * Writes the delays of timers since the last time, in milliseconds, to the file that DRAWBRIDGE_LOOP_DELAY names, at
 * each SIGUSR2. The daemon loads it before its own code. It is not TypeScript, since Node's reader of TypeScript would
 * be part of the daemon's memory.
 */
const histogram = monitorEventLoopDelay({ resolution: 1 });
histogram.enable();
process.on("SIGUSR2", () => {
  /** @param {number} share */
  const milliseconds = (share) => histogram.percentile(share) / 1e6;
  const found = { p50: milliseconds(50), p99: milliseconds(99), max: histogram.max / 1e6 };
  histogram.reset();
  writeFileSync(process.env["DRAWBRIDGE_LOOP_DELAY"] ?? "", JSON.stringify(found));
});
