import { readFileSync } from "node:fs";

const REASONS = "policyd/events/notice.ts";
const DOCUMENT = "docs/events.md";

/** Returns the reasons of all Events that the daemon can write, sorted. */
export function eventReasons(): readonly string[] {
  const [, union = ""] = /export type Reason =([^;]*);/.exec(readFileSync(REASONS, "utf8")) ?? [];
  return [...union.matchAll(/"(\w+)"/g)].map(([, reason = ""]) => reason).toSorted();
}

/** Returns the reasons of the rows in docs/events.md that have an object, a meaning and a way out. */
export function explainedEvents(): readonly string[] {
  const rows = readFileSync(DOCUMENT, "utf8").matchAll(/^\| `(\w+)` \| .+? \| .+? \| .+ \|$/gm);
  return [...rows].map(([, reason = ""]) => reason);
}
