import { type Check, type Remark, type Seen, SEVERITIES } from "./check.ts";

export interface Finding extends Remark {
  readonly check: Check["id"];
}

/** A check that could not run, and why. */
export interface Unseen {
  readonly check: string;
  readonly reason: string;
  /** Whether it could have run as root. */
  readonly needsRoot: boolean;
}

/** The results of the checks. */
export interface Diagnosis {
  /** The most severe first. */
  readonly findings: readonly Finding[];
  readonly unseen: readonly Unseen[];
  /** The node's address between nodes as the daemon has chosen it, and why. */
  readonly nodeAddress?: string | undefined;
}

/** Runs the checks whose facts could be read. */
export function diagnose<Facts extends object>(facts: Facts, checks: readonly Check<Facts>[]): Diagnosis {
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

function missingOf(fact: unknown): readonly Extract<Seen<unknown>, { readonly unseen: string }>[] {
  return isUnseen(fact) ? [fact] : [];
}

function isUnseen(fact: unknown): fact is Extract<Seen<unknown>, { readonly unseen: string }> {
  return typeof fact === "object" && fact !== null && "unseen" in fact;
}
