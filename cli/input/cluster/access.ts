import { parseDuration } from "../../../policyd/lib/duration.ts";
import type { KubeconfigChoice } from "../../../policyd/sources/api/connection/kubeconfig.ts";

/** The choice of cluster and user, and the time limit of one request. */
export interface ClusterAccess extends KubeconfigChoice {
  /** Milliseconds; undefined for no limit. */
  readonly requestTimeout: number | undefined;
}

/** kubectl waits without a limit; a question on the command line has to end. */
export const DEFAULT_REQUEST_TIMEOUT = "30s";

/** The longest time that a timer of Node can wait. */
const LONGEST = 2 ** 31 - 1;

/**
 * Reads a duration in the form of kubectl's `--request-timeout`: `30` (seconds), `1m30s`, `500ms`; `0` for no limit.
 *
 * @returns milliseconds, Infinity for no limit; undefined for any other text, or more than 24 days
 */
export function parseRequestTimeout(text: string): number | undefined {
  const milliseconds = parseDuration(/^\d+$/.test(text) ? `${text}s` : text);
  if (milliseconds === undefined || milliseconds > LONGEST) return undefined;
  return milliseconds === 0 ? Infinity : milliseconds;
}
