import type { LintContext } from "./context.ts";
import { SEVERITIES, type Severity } from "../../../policyd/problems/check.ts";
import type { Part } from "./unread.ts";

/** The place that a remark is about. */
export interface Place {
  /** `Kind namespace/name`; empty where the remark is not about an object. */
  readonly object: string;
  readonly file: string;
  /** From 1. */
  readonly line: number;
  /** The object as the file has it, where it is known. */
  readonly source: unknown;
}

/** A rule's remark about one place. */
export interface Remark {
  readonly place: Place;
  readonly message: string;
  /** The remedy, in a sentence. */
  readonly fix: string;
  /** The corrected object, as YAML. */
  readonly replacement?: string;
  /** Set only where it differs from the rule's, as for something that is probably intended. */
  readonly severity?: Severity;
}

/** A remark with the rule that made it. */
export interface Finding extends Remark {
  readonly id: string;
  readonly severity: Severity;
}

/** Returns a remark as info if something is so, such as a probable intention; otherwise with its rule's severity. */
export function asInfo(remark: Remark, isSo = true): Remark {
  return isSo ? { ...remark, severity: "info" } : remark;
}

/** Returns the place of a rule's documentation. @param page the address of docs/lint.md, or its path in the sources */
export function documentationOf(id: string, page = "docs/lint.md"): string {
  return `${page}#${id}`;
}

/** One kind of mistake that lint finds. */
export interface LintRule {
  /** Stable: people name it in `--ignore` and in annotations. */
  readonly id: string;
  readonly severity: Severity;
  /** The finding in one sentence. */
  readonly summary: string;
  /** Why it matters, for the rule's section in the documents. */
  readonly reason: string;
  /** The sorts of objects whose absence it reports: a finding may be due to one that could not be read. */
  readonly judgesBy?: readonly Part[];
  /** Whether it runs only where `--only` names it. */
  readonly isOffByDefault?: boolean;
  readonly check: (context: LintContext) => readonly Remark[];
}

/** Returns whether a severity is at least as high as another. */
export function isAtLeast(severity: Severity, limit: Severity): boolean {
  return SEVERITIES.indexOf(severity) <= SEVERITIES.indexOf(limit);
}
