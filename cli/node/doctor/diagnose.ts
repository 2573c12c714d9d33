import type { NodeFacts } from "./facts.ts";
import { type Check, type Finding, SEVERITIES, type Unseen } from "./finding.ts";

/** The results of the checks. */
export interface Diagnosis {
  /** The most severe first. */
  readonly findings: readonly Finding[];
  readonly unseen: readonly Unseen[];
}

/** Runs the checks whose facts could be read. */
export function diagnose(facts: NodeFacts, checks: readonly Check[]): Diagnosis {
  const findings: Finding[] = [];
  const unseen: Unseen[] = [];
  for (const { id, needs, examine } of checks) {
    const missing = needs.flatMap((need) => missingOf(facts[need]));
    const reason = [...new Set(missing.map((fact) => fact.unseen))].join("; ");
    const needsRoot = missing.some((fact) => fact.needsRoot === true);
    if (missing.length > 0) unseen.push({ check: id, reason, needsRoot });
    else findings.push(...examine(facts).map((remark) => ({ check: id, ...remark })));
  }
  findings.sort((a, b) => SEVERITIES.indexOf(a.severity) - SEVERITIES.indexOf(b.severity));
  return { findings, unseen };
}

function missingOf(
  fact: NodeFacts[keyof NodeFacts],
): readonly { readonly unseen: string; readonly needsRoot?: boolean }[] {
  return typeof fact === "object" && "unseen" in fact ? [fact] : [];
}

/** Returns the value of a fact; undefined only for one that the check does not name in `needs`. */
export function seen<T>(fact: { readonly value: T } | { readonly unseen: string }): T | undefined {
  return "value" in fact ? fact.value : undefined;
}
