import { readFileSync } from "node:fs";
import { ACTIONS } from "../../../policyd/events/notice.ts";

const DOCUMENT = "docs/events.md";

/** Returns the reasons of all Events that the daemon can write, sorted. */
export function eventReasons(): readonly string[] {
  return Object.keys(ACTIONS).toSorted();
}

/** Returns the reasons of the rows in docs/events.md that have an object, a meaning and a way out. */
export function explainedEvents(): readonly string[] {
  const rows = readFileSync(DOCUMENT, "utf8").matchAll(/^\| `(\w+)` \| .+? \| .+? \| .+ \|$/gm);
  return [...rows].map(([, reason = ""]) => reason);
}
