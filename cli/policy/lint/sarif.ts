import { pathToFileURL } from "node:url";
import { type SarifMessage, sarifMessage } from "../../output/markup.ts";
import { VERSION } from "../../../policyd/version.ts";
import { documentationOf, type Finding, type LintRule } from "./finding.ts";
import type { Severity } from "../../../policyd/problems/check.ts";

const LEVELS = { error: "error", warning: "warning", info: "note" } as const satisfies Readonly<
  Record<Severity, string>
>;

/** A result, with the members that hold texts of strangers. */
interface SarifResult {
  readonly ruleId: string;
  readonly ruleIndex: number;
  readonly level: string;
  readonly message: { readonly text: SarifMessage };
  readonly locations: readonly object[];
}

/**
 * Returns findings as SARIF 2.1.0 (OASIS), which code hosts show beside the lines. A fix is part of the message, since
 * it is not an edit.
 *
 * @param rules all rules that ran, including those without findings
 * @param page the address of docs/lint.md, for links to the rules
 */
export function lintSarif(findings: readonly Finding[], rules: readonly LintRule[], page?: string): string {
  const indexes = new Map(rules.map(({ id }, i) => [id, i]));
  const log = {
    $schema: "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json",
    version: "2.1.0",
    runs: [
      {
        tool: {
          driver: {
            name: "drawbridge",
            semanticVersion: VERSION,
            rules: rules.map(({ id, severity, summary, reason }) => ({
              id,
              shortDescription: { text: summary },
              help: { text: `${reason} See ${documentationOf(id, page)}.` },
              ...(page === undefined ? {} : { helpUri: documentationOf(id, page) }),
              defaultConfiguration: { level: LEVELS[severity] },
            })),
          },
        },
        results: findings.map((finding) => resultOf(finding, indexes)),
      },
    ],
  };
  return `${JSON.stringify(log, null, 2)}\n`;
}

function resultOf(
  { id, severity, place, message, fix, replacement }: Finding,
  indexes: ReadonlyMap<string, number>,
): SarifResult {
  const { object, file, line } = place;
  const text = `${object === "" ? "" : `${object}: `}${message}. Fix: ${fix}.${replacement === undefined ? "" : `\n\n${replacement}`}`;
  return {
    ruleId: id,
    ruleIndex: indexes.get(id) ?? -1,
    level: LEVELS[severity],
    message: { text: sarifMessage(text) },
    locations: [
      {
        physicalLocation: { artifactLocation: { uri: uriOf(file) }, region: { startLine: line } },
        ...(object === "" ? {} : { logicalLocations: [{ fullyQualifiedName: object }] }),
      },
    ],
  };
}

/** Returns a path as a reference; the viewer resolves a relative one. */
function uriOf(file: string): string {
  if (file.startsWith("/")) return pathToFileURL(file).href;
  const reference = file.split("/").map(encodeURIComponent).join("/");
  return reference.includes(":") ? `./${reference}` : reference;
}
