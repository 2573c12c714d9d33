import type { KubeconfigChoice } from "../../../policyd/sources/api/connection/kubeconfig.ts";

/** The choice of cluster and user, and the time limit of one request. */
export interface ClusterAccess extends KubeconfigChoice {
  /** Milliseconds; undefined for no limit. */
  readonly requestTimeout: number | undefined;
}

/** kubectl waits without a limit; a question on the command line has to end. */
export const DEFAULT_REQUEST_TIMEOUT = "30s";

const MILLISECONDS: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 };
/** The longest time that a timer of Node can wait. */
const LONGEST = 2 ** 31 - 1;

/**
 * Reads a duration in the form of kubectl's `--request-timeout`: `30` (seconds), `1m30s`, `500ms`; `0` for no limit.
 *
 * @returns milliseconds, Infinity for no limit; undefined for any other text, or more than 24 days
 */
export function parseRequestTimeout(text: string): number | undefined {
  const parts = /^\d+$/.test(text) ? `${text}s` : text;
  if (!/^(\d{1,9}(\.\d{1,9})?(ms|s|m|h))+$/.test(parts)) return undefined;
  const milliseconds = [...parts.matchAll(/([\d.]+)(ms|s|m|h)/g)].reduce(
    (total, [, number, unit = ""]) => total + Number(number) * (MILLISECONDS[unit] ?? 0),
    0,
  );
  // Less than a millisecond is rounded up, so that it does not mean "no limit".
  const sum = Math.ceil(milliseconds);
  if (sum > LONGEST) return undefined;
  return sum === 0 ? Infinity : sum;
}
