import type { RulesetOverview } from "../../../kernel/nftables/decode/overview.ts";
import { printable } from "../../../objects/printable.ts";
import { formatTable } from "../../output/table.ts";
import type { Style } from "../../io.ts";
import type { Diagnosis } from "../../../policyd/problems/diagnose.ts";
import type { Check } from "./facts.ts";
import { findingsText, severityText } from "../../output/text.ts";

/** Yields the findings for people, each with its reason and the way out, then the checks that could not run. */
export function* diagnosisTable(
  { findings, unseen, nodeAddress }: Diagnosis,
  columns: number,
  style: Style,
): Generator<string> {
  const rows = findings.flatMap(({ severity, check, what, why, way }) => [
    [severityText(severity, style), check, printable(what)],
    ["", "", `why: ${printable(why)}`],
    ["", "", `way out: ${printable(way)}`],
  ]);
  if (rows.length > 0) yield `${formatTable(["severity", "check", "finding"], rows, columns)}\n`;
  for (const { check, reason } of unseen) yield `not checked: ${check}: ${printable(reason)}\n`;
  if (nodeAddress !== undefined) yield `node address: ${printable(nodeAddress)}\n`;
  yield `${findingsText(findings)}${unseen.length === 0 ? "" : `; ${unseen.length} not checked`}\n`;
}

/** Returns the list of checks. */
export function checksTable(checks: readonly Check[], columns: number): string {
  return formatTable(
    ["check", "what it looks at"],
    checks.map(({ id, summary }) => [id, summary]),
    columns,
  );
}

/** Returns `{findings: [{check, severity, what, why, way}], unseen: [{check, reason}], nodeAddress, ruleset}`. */
export function diagnosisObject({ findings, unseen, nodeAddress }: Diagnosis, ruleset?: RulesetOverview): object {
  return {
    findings: findings.map(({ check, severity, what, why, way }) => ({ check, severity, what, why, way })),
    unseen: unseen.map(({ check, reason }) => ({ check, reason })),
    ...(nodeAddress === undefined ? {} : { nodeAddress }),
    ...(ruleset === undefined ? {} : { ruleset }),
  };
}
