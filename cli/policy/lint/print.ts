import { printable } from "../../../objects/printable.ts";
import { locationText } from "../../input/place.ts";
import { formatTable } from "../../output/table.ts";
import { findingsText, severityText } from "../../output/text.ts";
import type { Style } from "../../io.ts";
import { documentationOf, type Finding, type LintRule, type Place } from "./finding.ts";

/** Yields the findings for people, by file and each with its fix, and at the end the objects that replace others. */
export function* lintTable(findings: readonly Finding[], columns: number, style: Style): Generator<string> {
  for (const [file, ofFile] of Map.groupBy(findings, ({ place }) => place.file)) {
    const rows = ofFile.flatMap(({ severity, id, place, message, fix }) => [
      [`${place.line}`, severityText(severity, style), id, `${objectText(place)}${printable(message)}`],
      ["", "", "", `fix: ${printable(fix)}`],
    ]);
    yield `${style.strong(fileText(file))}\n${formatTable(["line", "severity", "rule", "finding"], rows, columns)}\n`;
  }
  yield* replacements(findings);
  yield `${findingsText(findings)}\n`;
}

/** A list of `{id, severity, object, file, line, message, fix, documentation}`, and `replacement` if there is one. */
export function lintJson(findings: readonly Finding[], page?: string): string {
  const list = findings.map(({ id, severity, place: { object, file, line }, message, fix, replacement }) => ({
    id,
    severity,
    object,
    file,
    line,
    message,
    fix,
    documentation: documentationOf(id, page),
    ...(replacement === undefined ? {} : { replacement }),
  }));
  return `${JSON.stringify(list, null, 2)}\n`;
}

/** Returns the table of rules. */
export function rulesTable(rules: readonly LintRule[], columns: number): string {
  const rows = rules.map(({ id, severity, summary }) => [id, severity, summary]);
  return formatTable(["rule", "severity", "what it tells"], rows, columns);
}

function* replacements(findings: readonly Finding[]): Generator<string> {
  for (const { place, replacement } of findings) {
    if (replacement === undefined) continue;
    const lines = replacement.trimEnd().split("\n").map(printable);
    // Editors and terminals recognize the place in this form.
    const where = printable(locationText(place.file, place.line));
    yield `# instead of ${printable(place.object)} (${where})\n${lines.join("\n")}\n\n`;
  }
}

function objectText({ object }: Place): string {
  return object === "" ? "" : `${printable(object)}: `;
}

function fileText(file: string): string {
  return file === "-" ? "standard input" : printable(file);
}
