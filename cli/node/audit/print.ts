import { counted } from "../../output/text.ts";
import { printable } from "../../../objects/printable.ts";
import { formatTable } from "../../output/table.ts";
import type { Style } from "../../io.ts";
import type { AuditFindings, Leak } from "./leak.ts";

/** The state of a leak, and why it is left. */
export interface Outcome {
  readonly leak: Leak;
  readonly state: "leaked" | "repaired" | "left";
  /** Why it is not repaired, with the way out; undefined where --repair repairs it. */
  readonly reason: string | undefined;
}

/** The findings of an audit, and its repairs. */
export interface AuditReport {
  readonly isRepaired: boolean;
  readonly outcomes: readonly Outcome[];
  readonly unseen: AuditFindings["unseen"];
}

/** Yields the report for people. */
export function* auditTable(
  { isRepaired, outcomes, unseen }: AuditReport,
  columns: number,
  style: Style,
): Generator<string> {
  const rows = outcomes.flatMap(({ leak: { kind, what, why }, state, reason }) => [
    [state === "repaired" ? style.good(state) : style.bad(state), kind, printable(what)],
    ["", "", `why: ${printable(why)}`],
    ...(reason === undefined ? [] : [["", "", `left: ${printable(reason)}`]]),
  ]);
  if (rows.length > 0) yield `${formatTable(["state", "kind", "what"], rows, columns)}\n`;
  for (const { what, reason } of unseen) yield `not checked: ${what}: ${printable(reason)}\n`;
  yield `${lastLine(outcomes, isRepaired)}${unseen.length === 0 ? "" : `; ${unseen.length} not checked`}\n`;
}

function lastLine(outcomes: readonly Outcome[], isRepaired: boolean): string {
  if (outcomes.length === 0) return "no leaks";
  if (!isRepaired) {
    const count = counted(outcomes.length, "leak");
    const repairable = outcomes.filter(({ reason }) => reason === undefined).length;
    return `${count}; nothing was changed: --repair repairs ${repairable} of them`;
  }
  const left = outcomes.filter(({ state }) => state === "left").length;
  return left === 0 ? `${outcomes.length} repaired` : `${outcomes.length - left} repaired, ${left} left`;
}

/** Returns the report as `{repair, leaks: [{kind, what, why, state, reason}], unseen: [{what, reason}]}`. */
export function auditObject({ isRepaired, outcomes, unseen }: AuditReport): object {
  return {
    repair: isRepaired,
    leaks: outcomes.map(({ leak: { kind, what, why }, state, reason }) => ({
      kind,
      what,
      why,
      state,
      ...(reason === undefined ? {} : { reason }),
    })),
    unseen: unseen.map(({ what, reason }) => ({ what, reason })),
  };
}
