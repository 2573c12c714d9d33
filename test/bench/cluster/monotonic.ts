import process from "node:process";

/** Returns milliseconds of CLOCK_MONOTONIC, which all processes of a machine share, unlike performance.now(). */
export function monotonicMilliseconds(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

/** Returns the offset to add to a value of performance.now() of this process. */
export function monotonicOffset(): number {
  return monotonicMilliseconds() - performance.now();
}
