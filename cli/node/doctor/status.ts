import { seen, SEVERITIES, type Severity } from "../../../policyd/problems/check.ts";
import type { Diagnosis, Finding } from "../../../policyd/problems/diagnose.ts";
import { codeOf, type ProblemCode, problemLine, remarkText, severityOf } from "../../../policyd/problems/problem.ts";
import { counted } from "../../output/text.ts";
import type { Check, NodeFacts } from "./facts.ts";

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
