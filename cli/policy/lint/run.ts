import * as v from "valibot";
import { nearestHint } from "../../../objects/nearest_names.ts";
import { ExitCode, type Io, styleOf } from "../../io.ts";
import { configurationOf } from "../../input/configuration_file.ts";
import { configurationEntries, inputEntries } from "../../input/input_schema.ts";
import { readInput, tellAll } from "../../input/load.ts";
import { emptiness } from "../../input/doubts.ts";
import { shownBy, shownEntries } from "../../input/shown.ts";
import { textsAt } from "../../input/raw.ts";
import { writeAll } from "../../output/write_all.ts";
import { LINT_FORMATS } from "./command.ts";
import { isAtLeast, type LintRule } from "./finding.ts";
import { SEVERITIES } from "../../../policyd/problems/check.ts";
import { IgnoreComments } from "./ignore_comments.ts";
import { lintIn } from "./lint.ts";
import { lintContext } from "./context.ts";
import { frozenLabels } from "../../../objects/name.ts";
import { controllerEntries } from "../../ways_in/controller_option.ts";
import { lintJson, lintTable, rulesTable } from "./print.ts";
import { RULES } from "./rules.ts";
import { lintSarif } from "./sarif.ts";
import { tellUnjudged } from "../../ways_in/ways_in.ts";

const ids = v.optional(v.array(v.string()), []);

const optionsSchema = v.object({
  ...inputEntries,
  ...configurationEntries,
  ...controllerEntries,
  ...shownEntries,
  failOn: v.picklist(SEVERITIES),
  minSeverity: v.picklist(SEVERITIES),
  documentation: v.optional(v.string()),
  only: ids,
  ignore: ids,
  list: v.boolean(),
  output: v.picklist(LINT_FORMATS),
});

/**
 * Prints the findings, also for input with problems, which are findings, too.
 *
 * @returns an error in the command line, or the exit code
 * @throws DrawbridgeError ERR_INPUT as readInput, ERR_CONFIGURATION
 */
export async function runLint(io: Io, options: unknown): Promise<ExitCode | string> {
  const { failOn, minSeverity, documentation, only, ignore, list, output, config, ingressController, ...input } =
    v.parse(optionsSchema, options);
  const unknown = [...only, ...ignore].find((id) => !RULES.some((rule) => rule.id === id));
  if (unknown !== undefined) return unknownRule(unknown);
  const isAsked = ({ id, isOffByDefault = false }: LintRule): boolean =>
    only.includes(id) || (only.length === 0 && (list || !isOffByDefault));
  const rules = RULES.filter((rule) => isAsked(rule) && !ignore.includes(rule.id));
  if (list) {
    io.out.write(rulesTable(rules, io.out.columns));
    return ExitCode.YES;
  }
  const { policePodToOwnNode, nodeLocalDNS, refuseExternalIPs } = configurationOf(io, config, input.filename);
  const settings = { policePodToOwnNode, nodeLocalDNS, refuseExternalIps: refuseExternalIPs };
  const comments = new IgnoreComments();
  // Here, fields that the API does not have are findings.
  const read = { ...input, validate: undefined, waysIn: true };
  const manifests = await readInput({ ...io, files: comments.watching(io.files) }, read);
  tellAll(io, manifests.omitted);
  // Findings report the other doubts, and objects that are there but cannot be read.
  if (manifests.problems.length === 0) {
    for (const text of emptiness(manifests.manifests)) io.err.write(`${text}\n`);
  }
  const context = lintContext(manifests, settings, ingressController);
  tellUnjudged(io, context.waysIn.doubts);
  const isShown = shownBy(input);
  const findings = lintIn(context, rules, comments.all).filter(({ place: { object, source } }) =>
    isShown(/^\S+ ([^/]+)\//.exec(object)?.[1], frozenLabels(textsAt(source, "metadata", "labels"))),
  );
  const shown = findings.filter(({ severity }) => isAtLeast(severity, minSeverity));
  const print: Readonly<Record<typeof output, () => Iterable<string>>> = {
    table: () => lintTable(shown, io.out.columns, styleOf(io.out)),
    json: () => [lintJson(shown, documentation)],
    sarif: () => [lintSarif(shown, rules, documentation)],
  };
  writeAll(io.out, print[output]());
  if (manifests.problems.length > 0) {
    io.err.write("not everything could be read, so findings about the rest may be wrong or missing\n");
  }
  return findings.some(({ severity }) => isAtLeast(severity, failOn)) ? ExitCode.NO : ExitCode.YES;
}

function unknownRule(id: string): string {
  const names = RULES.map((rule) => rule.id);
  return `${JSON.stringify(id)} is not a rule; ${nearestHint(id, names, "--list prints them")}`;
}
