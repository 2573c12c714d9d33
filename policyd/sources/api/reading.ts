import { Buffer } from "node:buffer";
import type { Cancel } from "../../lib/clock.ts";
import type { Failure } from "./failure.ts";
import type { PageReader } from "./page.ts";
import { WatchLines, wordsOf } from "./watch_lines.ts";

export const OK = 200;

/** One request, and its answer while it is read. */
export interface Reading {
  cancel: Cancel;
  status: number;
  retryAfter: number | undefined;
  /** The clock's time of the request. */
  readonly begun: number;
  /** The number of events when a watch last gave a sign of life. */
  heard: number | undefined;
  /** Whether it repeats a request without an answer; then it is not repeated again, however slow the server is. */
  isRepeated: boolean;
  /** The clock's time of the answer. */
  since: number | undefined;
  readonly page: PageReader | undefined;
  readonly lines: WatchLines;
  readonly refusal: Uint8Array[];
  silence: Cancel;
}

/** Returns a reading without an answer. */
export function newReading(begun: number, page: PageReader | undefined): Reading {
  return {
    cancel: () => {},
    status: 0,
    retryAfter: undefined,
    begun,
    heard: undefined,
    isRepeated: false,
    since: undefined,
    page,
    lines: new WatchLines(),
    refusal: [],
    silence: () => {},
  };
}

/** Returns the server's refusal; undefined where it has not refused or not answered. */
export function refusalOf({ status, retryAfter, refusal }: Reading): Failure | undefined {
  if (status === OK || status === 0) return undefined;
  let words = "";
  try {
    words = wordsOf(JSON.parse(Buffer.concat(refusal).toString("utf8")));
  } catch {
    // Proxies, and a server that is starting, do not send a Status object.
  }
  return { type: "refused", status, words, retryAfter, isEvent: false };
}
