import { readFileSync } from "node:fs";

const REASONS = "policyd/events/notice.ts";
const DOCUMENT = "docs/events.md";

/** An Event as docs/events.md has it. */
export interface EventReason {
  readonly reason: string;
  /** The kind of object that it is about. */
  readonly about: string;
  readonly meaning: string;
  readonly way: string;
}

/** Returns the reasons of all Events that the daemon can write, sorted. */
export function eventReasons(): readonly string[] {
  const [, union = ""] = /export type Reason =([^;]*);/.exec(readFileSync(REASONS, "utf8")) ?? [];
  return [...union.matchAll(/"(\w+)"/g)].map(([, reason = ""]) => reason).toSorted();
}

/** Returns the rows of the table of Events in docs/events.md, by reason. */
export function explainedEvents(): ReadonlyMap<string, EventReason> {
  const rows = readFileSync(DOCUMENT, "utf8").matchAll(/^\| `(\w+)` \| (.+?) \| (.+?) \| (.+) \|$/gm);
  return new Map(
    [...rows].map(([, reason = "", about = "", meaning = "", way = ""]) => [reason, { reason, about, meaning, way }]),
  );
}
