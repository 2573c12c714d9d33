import * as v from "valibot";
import { seen, SEVERITIES, type Severity } from "../../../policyd/problems/check.ts";
import { nearestHint } from "../../../objects/nearest_names.ts";
import { ExitCode, type Io, styleOf } from "../../io.ts";
import { configurationOf } from "../../input/configuration_file.ts";
import { configurationEntries } from "../../input/input_schema.ts";
import { DOCUMENT_FORMATS, documentText } from "../../output/document.ts";
import { placeEntries, placeOf } from "../place.ts";
import { CHECKS } from "./checks.ts";
import { diagnose, type Diagnosis, type Finding } from "../../../policyd/problems/diagnose.ts";
import { expectation } from "./expectation.ts";
import { checksTable, diagnosisObject, diagnosisTable } from "./print.ts";
import { codeOf, type ProblemCode, problemLine, remarkText, severityOf } from "../../../policyd/problems/problem.ts";
import { counted } from "../../output/text.ts";
import type { Check, NodeFacts } from "./facts.ts";

const optionsSchema = v.object({
  ...placeEntries,
  ...configurationEntries,
  only: v.optional(v.array(v.string())),
  list: v.boolean(),
  probe: v.boolean(),
  output: v.picklist(DOCUMENT_FORMATS),
});

/**
 * @returns an error in the command line, or the exit code: 1 for errors and warnings; 3 where there are none but no
 *   check could run at all, or more could have run as root
 * @throws DrawbridgeError ERR_INPUT, ERR_CONFIGURATION; SyscallError ERR_NAMESPACE
 */
export async function runDoctor(io: Io, options: unknown): Promise<ExitCode | string> {
  const { config, only, list, probe, output, ...places } = v.parse(optionsSchema, options);
  const ids: readonly string[] = CHECKS.map(({ id }) => id);
  const unknown = only?.find((id) => !ids.includes(id));
  if (unknown !== undefined) {
    return `${JSON.stringify(unknown)} is not a check; ${nearestHint(unknown, ids, "--list prints them")}`;
  }
  const checks = CHECKS.filter(({ id }) => only?.includes(id) ?? true);
  if (list) {
    io.out.write(checksTable(checks, io.out.columns));
    return ExitCode.YES;
  }
  if (only?.includes("probe") === true && !probe) return "the check probe attaches pods: give --probe as well";
  const configuration = configurationOf(io, config);
  const place = placeOf(places, configuration);
  const expected = expectation(configuration);
  const machine = await io.node.open(place.networkNamespace);
  const facts = machine.readFacts(place, expected);
  const diagnosis = withStatus(
    diagnose(probe ? { ...facts, probed: await machine.probe(facts) } : facts, checks),
    facts,
    checks,
  );
  if (output !== "table") io.out.write(await documentText(output, diagnosisObject(diagnosis, seen(facts.ruleset))));
  else for (const text of diagnosisTable(diagnosis, io.out.columns, styleOf(io.out))) io.out.write(text);
  if (diagnosis.findings.some(({ severity }) => severity !== "info")) return ExitCode.NO;
  const isProbeUnseen = probe && diagnosis.unseen.some(({ check }) => check === "probe");
  return isProbeUnseen || isUnanswered(diagnosis, checks.length) ? ExitCode.ERROR : ExitCode.YES;
}

/** A check that cannot run here, as in a container that does not see the node's files, is not an error. */
function isUnanswered({ unseen }: Diagnosis, checks: number): boolean {
  return unseen.length === checks || unseen.some(({ needsRoot }) => needsRoot);
}

const LOGS = "kubectl -n kube-system logs -l app.kubernetes.io/name=drawbridge has all";

/**
 * Returns a diagnosis with the node's address and the problems of the daemon's status (DOCTOR-18): each problem as a
 * finding of its check, or of `daemon` where that check was not asked for. A problem is omitted if its check has found
 * the same, or anything as severe.
 */
export function withStatus(diagnosis: Diagnosis, { daemon }: NodeFacts, checks: readonly Check[]): Diagnosis {
  const answer = seen(daemon);
  if (answer === undefined || "away" in answer) return diagnosis;
  const { problems, problemCount } = answer.status;
  const ids = new Set(checks.map(({ id }) => id));
  const isReported = (line: string, code: ProblemCode, severity: Severity): boolean => {
    const own = diagnosis.findings.filter(({ check }) => check === code);
    if (own.some((remark) => problemLine(code, remarkText(remark)) === line)) return true;
    // The most severe comes first.
    return SEVERITIES.indexOf(own[0]?.severity ?? "info") <= SEVERITIES.indexOf(severity);
  };
  const added = problems.flatMap((line): readonly Finding[] => {
    const code = codeOf(line);
    const check = code !== undefined && ids.has(code) ? code : "daemon";
    const severity = severityOf(code);
    if (!ids.has(check) || (code !== undefined && isReported(line, code, severity))) return [];
    return [
      {
        check,
        severity,
        what: `policyd reports: ${line}`,
        why: "what it names is not in force",
        way: `do what the text says; ${LOGS}`,
      },
    ];
  });
  const rest = problemCount - problems.length;
  if (rest > 0 && ids.has("daemon")) {
    const what = `policyd has ${counted(rest, "more problem")}`;
    added.push({ check: "daemon", severity: "warning", what, why: "what they name is not in force", way: LOGS });
  }
  const findings = [...diagnosis.findings, ...added];
  findings.sort((a, b) => SEVERITIES.indexOf(a.severity) - SEVERITIES.indexOf(b.severity));
  return { ...diagnosis, findings, nodeAddress: answer.status.nodeAddress };
}
