import type { LintContext } from "./context.ts";

/** The gravest first. */
export const SEVERITIES = ["error", "warning", "info"] as const;

export type Severity = (typeof SEVERITIES)[number];

/** Where something is said, and of what. */
export interface Place {
  /** `Kind namespace/name`; empty where there is not one. */
  readonly object: string;
  readonly file: string;
  /** From 1. */
  readonly line: number;
  /** The object as it stands in the file, where it is known. */
  readonly source: unknown;
}

/** A rule's words about one place. */
export interface Remark {
  readonly place: Place;
  readonly message: string;
  /** The remedy, in a sentence. */
  readonly fix: string;
  /** The object as it should be, as YAML. */
  readonly replacement?: string;
  /** Only where it differs from that of the rule, as for probable intentions. */
  readonly severity?: Severity;
}

/** A remark with the rule it comes from. */
export interface Finding extends Remark {
  readonly id: string;
  readonly severity: Severity;
}

/** A remark as info, as of a probable intention; where that is not so, with the severity of its rule. */
export function asInfo(remark: Remark, isSo = true): Remark {
  return isSo ? { ...remark, severity: "info" } : remark;
}

/** Where a rule is explained. */
export function documentationOf(id: string): string {
  return `docs/lint.md#${id}`;
}

/** One thing that lint looks for. */
export interface LintRule {
  /** Stable: people name it in `--ignore` and in annotations. */
  readonly id: string;
  readonly severity: Severity;
  /** The finding in one sentence. */
  readonly summary: string;
  readonly check: (context: LintContext) => readonly Remark[];
}

/** Whether a severity is at least as grave as another. */
export function isAtLeast(severity: Severity, limit: Severity): boolean {
  return SEVERITIES.indexOf(severity) <= SEVERITIES.indexOf(limit);
}
