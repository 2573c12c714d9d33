import type { KubeconfigChoice } from "../../../policyd/source/api/kubeconfig.ts";

/** Which cluster, as whom, and how long one request may take. */
export interface ClusterAccess extends KubeconfigChoice {
  /** Milliseconds; undefined for no limit. */
  readonly requestTimeout: number | undefined;
}

/** kubectl waits for ever; a question on the command line ends. */
export const DEFAULT_REQUEST_TIMEOUT = "30s";

const MILLISECONDS: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 };
/** What a timer of Node can wait for. */
const LONGEST = 2 ** 31 - 1;

/**
 * A duration as kubectl's `--request-timeout` takes it: `30` (seconds), `1m30s`, `500ms`; `0` is no limit.
 *
 * @returns milliseconds, Infinity for no limit; undefined for what is no such text, or longer than 24 days
 */
export function parseRequestTimeout(text: string): number | undefined {
  const parts = /^\d+$/.test(text) ? `${text}s` : text;
  if (!/^(\d{1,9}(\.\d{1,9})?(ms|s|m|h))+$/.test(parts)) return undefined;
  const milliseconds = [...parts.matchAll(/([\d.]+)(ms|s|m|h)/g)].reduce(
    (total, [, number, unit = ""]) => total + Number(number) * (MILLISECONDS[unit] ?? 0),
    0,
  );
  // What is asked for in microseconds is no "no limit".
  const sum = Math.ceil(milliseconds);
  if (sum > LONGEST) return undefined;
  return sum === 0 ? Infinity : sum;
}
