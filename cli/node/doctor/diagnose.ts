import type { NodeFacts } from "./facts.ts";
import type { Check, Finding, Unseen } from "./finding.ts";
import { SEVERITIES } from "./finding.ts";

/** What the checks say of a node. */
export interface Diagnosis {
  /** The gravest first. */
  readonly findings: readonly Finding[];
  readonly unseen: readonly Unseen[];
}

/** Makes the checks, each as far as what it needs was seen. */
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

/** A fact that was seen; the checks name what they need, so it is only undefined where they did not. */
export function seen<T>(fact: { readonly value: T } | { readonly unseen: string }): T | undefined {
  return "value" in fact ? fact.value : undefined;
}
