/** Nanoseconds in each unit of Go's time.ParseDuration, with which Kubernetes parses durations. */
const UNITS: Readonly<Record<string, number>> = {
  ns: 1,
  us: 1e3,
  µs: 1e3,
  μs: 1e3,
  ms: 1e6,
  s: 1e9,
  m: 60e9,
  h: 3600e9,
};

const PART = /(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)/gy;

/**
 * Parses a duration in Kubernetes' format (`1s`, `500ms`, `1m30s`) to whole milliseconds; "0" needs no unit.
 *
 * @returns undefined for any other text, for a negative duration, and for a nonzero one below a millisecond
 */
export function parseDuration(text: string): number | undefined {
  if (text === "0") return 0;
  if (text === "" || text.length > 64) return undefined;
  let [nanoseconds, end] = [0, 0];
  for (const [part, number, unit] of text.matchAll(PART)) {
    nanoseconds += Number(number) * (UNITS[unit ?? ""] ?? Number.NaN);
    end += part.length;
  }
  const milliseconds = Math.round(nanoseconds / 1e6);
  const isWhole = end === text.length && Number.isSafeInteger(milliseconds);
  return isWhole && (milliseconds > 0 || nanoseconds === 0) ? milliseconds : undefined;
}
