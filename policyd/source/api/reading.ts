import { Buffer } from "node:buffer";
import type { Cancel } from "../../clock.ts";
import type { Failure } from "./failure.ts";
import type { PageReader } from "./page.ts";
import { WatchLines, wordsOf } from "./watch_lines.ts";

export const OK = 200;

/** One answer as it is read. */
export interface Reading {
  cancel: Cancel;
  status: number;
  retryAfter: number | undefined;
  /** When it was asked for, by the clock. */
  readonly begun: number;
  /** Whether it was asked for before without an answer: it is waited for, however slow the server is. */
  isRepeated: boolean;
  /** When the server answered, by the clock. */
  since: number | undefined;
  readonly page: PageReader | undefined;
  readonly lines: WatchLines;
  readonly refusal: Uint8Array[];
  readonly quiet: number;
  silence: Cancel;
}

/** One that nothing is known of yet. */
export function newReading(begun: number, quiet: number, page: PageReader | undefined): Reading {
  return {
    cancel: () => {},
    status: 0,
    retryAfter: undefined,
    begun,
    isRepeated: false,
    since: undefined,
    page,
    lines: new WatchLines(),
    refusal: [],
    quiet,
    silence: () => {},
  };
}

/** What the server has refused with; undefined where it has not, or has not answered. */
export function refusalOf({ status, retryAfter, refusal }: Reading): Failure | undefined {
  if (status === OK || status === 0) return undefined;
  let words = "";
  try {
    words = wordsOf(JSON.parse(Buffer.concat(refusal).toString("utf8")));
  } catch {
    // What proxies and a server that is starting say is no Status object.
  }
  return { type: "refused", status, words, retryAfter, isEvent: false };
}
