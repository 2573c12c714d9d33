import { printable } from "../../../objects/printable.ts";
import { formatTable } from "../../output/table.ts";
import type { Style } from "../../io.ts";
import type { Outcome } from "./carry_out.ts";
import type { CleanupPlan } from "./plan.ts";
import { removalText } from "./removal.ts";

/** The actions of a planned cleanup, or their outcomes after it. */
export interface Report {
  readonly plan: CleanupPlan;
  readonly outcomes: readonly Outcome[] | undefined;
}

/** Yields the report for people. */
export function* reportTable({ plan, outcomes }: Report, columns: number, style: Style): Generator<string> {
  const rows = (outcomes ?? plan.removals.map((removal) => ({ removal, failure: undefined }))).map(
    ({ removal, failure }) => [
      outcomes === undefined ? "remove" : failure === undefined ? style.good("removed") : style.bad("left"),
      removal.kind,
      `${printable(removalText(removal))}${failure === undefined ? "" : `: ${printable(failure)}`}`,
    ],
  );
  const kept = plan.kept.map(({ what, why }) => ["keep", "", `${printable(what)}: ${printable(why)}`]);
  if (rows.length + kept.length > 0) yield `${formatTable(["action", "kind", "what"], [...rows, ...kept], columns)}\n`;
  for (const note of plan.notes) yield `${note}\n`;
  yield `${lastLine({ plan, outcomes })}\n`;
}

function lastLine({ plan, outcomes }: Report): string {
  if ((outcomes ?? plan.removals).length === 0) return "nothing to remove";
  if (outcomes === undefined) return "nothing was changed: --yes removes what is listed";
  const left = outcomes.filter(({ failure }) => failure !== undefined).length;
  return left === 0 ? `${outcomes.length} removed` : `${outcomes.length - left} removed, ${left} left`;
}

/** `{dryRun, removals: [{kind, what, done, failure}], kept: [{what, why}], notes}`; a plan has no done or failure. */
export function reportObject({ plan, outcomes }: Report): object {
  return {
    dryRun: outcomes === undefined,
    removals:
      outcomes === undefined
        ? plan.removals.map((removal) => ({ kind: removal.kind, what: removalText(removal) }))
        : outcomes.map(({ removal, failure }) => ({
            kind: removal.kind,
            what: removalText(removal),
            done: failure === undefined,
            ...(failure === undefined ? {} : { failure }),
          })),
    kept: plan.kept,
    notes: plan.notes,
  };
}
