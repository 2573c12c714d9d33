import { counted } from "../../output/text.ts";
import { printable } from "../../../objects/printable.ts";
import { groupName } from "../../cluster/group.ts";
import { foldLine } from "../../output/fold.ts";
import type { Style } from "../../io.ts";
import { diffObject, diffText, type DiffReport } from "../diff/print.ts";
import { placeText } from "../../input/locate.ts";
import { liveObject, liveText } from "../live/print.ts";
import type { LiveReport } from "../live/report.ts";
import { type ObjectChange, placedName } from "./apply.ts";
import type { IsolationEffect, PodNames, PolicyEffect } from "./effect.ts";
import type { Warning } from "./warnings.ts";

/** The effects of a change. */
export interface DryRun {
  readonly policies: readonly PolicyEffect[];
  /** The changes of other objects. Their effect on policies shows in the connections that open and close. */
  readonly others: readonly ObjectChange[];
  readonly isolation: readonly IsolationEffect[];
  readonly diff: DiffReport;
  readonly warnings: readonly Warning[];
  /** The effect on the connections in given tables. */
  readonly live: LiveReport | undefined;
}

/** Yields the report for people. */
export function* dryRunText(
  { policies, others, isolation, diff, warnings, live }: DryRun,
  style: Style,
  columns: number,
): Generator<string> {
  for (const fact of effects({ policies, others, isolation })) yield foldLine(printable(fact), columns, 0, 2);
  if (live !== undefined) yield* liveText(live, style, columns);
  yield* diffText(diff, style, columns);
  for (const { text, file, line } of warnings) {
    const words = foldLine(
      `${style.bad("warning:")} ${printable(placeText({ name: text, file, line }))}`,
      columns,
      0,
      2,
    );
    yield words;
  }
}

/** Returns the effects on objects and on isolation, and the warnings, as sentences of plain text. */
export function dryRunFacts(dryRun: DryRun): readonly string[] {
  return [
    ...effects(dryRun),
    ...dryRun.warnings.map(({ text, file, line }) => `warning: ${placeText({ name: text, file, line })}`),
  ];
}

function* effects({
  policies,
  others,
  isolation,
}: Pick<DryRun, "policies" | "others" | "isolation">): Generator<string> {
  for (const { type, name, file, line, selects } of policies) {
    yield `${type} ${placeText({ name, file, line })}: selects ${selected(selects)}`;
  }
  for (const [text, { length }] of Map.groupBy(others, otherText)) {
    yield length > 1 ? `${text} (${length} pods)` : text;
  }
  for (const { direction, type, of } of isolation) {
    const word = type === "isolated" ? `newly isolated for ${direction}` : `no longer isolated for ${direction}`;
    yield `${word}: ${selected(of)}`;
  }
}

/** Returns one line for all pods of a workload. */
function otherText({ type, placed }: ObjectChange): string {
  const { object } = placed;
  return `${type} ${object.kind === "Pod" ? groupName(object, "workload") : placedName(placed)}`;
}

function selected({ pods, names }: PodNames): string {
  if (pods === 0) return "no pod";
  return `${names.join(", ")} (${counted(pods, "pod")})`;
}

/** Returns the object that docs/cli.md describes. */
export function dryRunObject({ policies, others, isolation, diff, warnings, live }: DryRun): object {
  const { changes, ...oneSided } = { changes: [], ...diffObject(diff) };
  return {
    policies: policies.map(({ type, name, file, line, selects }) => ({ change: type, name, file, line, selects })),
    others: others.map(({ type, placed }) => ({ change: type, name: placedName(placed) })),
    isolation: isolation.map(({ direction, type, of }) => ({ direction, change: type, ...of })),
    changes,
    ...oneSided,
    warnings,
    ...(live === undefined ? {} : { live: liveObject(live) }),
  };
}
