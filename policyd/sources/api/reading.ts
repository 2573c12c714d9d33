import type { Cancel } from "../../lib/clock.ts";
import type { Failure } from "./failure.ts";
import type { PageReader } from "./page.ts";
import { WatchLines, wordsIn } from "./watch_lines.ts";

export const OK = 200;

/** One request, and its answer while it is read. */
export class Reading {
  /** The clock's time of the request. */
  readonly begun: number;
  readonly page: PageReader | undefined;
  readonly lines = new WatchLines();
  readonly refusal: Uint8Array[] = [];
  cancel: Cancel = () => {};
  silence: Cancel = () => {};
  stall: Cancel = () => {};
  /** 0 without an answer. */
  status = 0;
  retryAfter: number | undefined;
  /** The clock's time of the answer. */
  since: number | undefined;
  /** The number of items of a page so far. */
  items = 0;
  /** {@link whole} at the last sign of life. */
  heard: number | undefined;
  /** Whether it repeats a request without an answer; then it is not repeated again, however slow the server is. */
  isRepeated = false;

  constructor(begun: number, page: PageReader | undefined) {
    this.begun = begun;
    this.page = page;
  }

  /** The number of whole events and items so far: bytes may come from a proxy whose server is dead. */
  get whole(): number {
    return this.lines.count + this.items;
  }
}

/** Returns the server's refusal; undefined where it has not refused or not answered. */
export function refusalOf({ status, retryAfter, refusal }: Reading): Failure | undefined {
  if (status === OK || status === 0) return undefined;
  return { type: "refused", status, words: wordsIn(refusal), retryAfter, isEvent: false };
}
