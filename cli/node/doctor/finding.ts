import type { NodeFacts } from "./facts.ts";

/** The most severe first: something does not work, something will stop working, something to know. */
export const SEVERITIES = ["error", "warning", "info"] as const;

export type Severity = (typeof SEVERITIES)[number];

/** The most things that a remark names. */
const NAMED = 3;

/** A result of a check. */
export interface Remark {
  readonly severity: Severity;
  /** The problem, with names and values. */
  readonly what: string;
  /** The consequence. */
  readonly why: string;
  /** The way out, with the command. */
  readonly way: string;
}

export interface Finding extends Remark {
  readonly check: string;
}

/** A check that could not run, and why. */
export interface Unseen {
  readonly check: string;
  readonly reason: string;
  /** Whether it could have run as root. */
  readonly needsRoot: boolean;
}

/** One check of the doctor. */
export interface Check {
  /** Stable, since people name it in `--only`. */
  readonly id: string;
  /** The expected state, in one sentence. */
  readonly summary: string;
  /** The facts without which it cannot run. */
  readonly needs: readonly (keyof NodeFacts)[];
  readonly examine: (facts: NodeFacts) => readonly Remark[];
}

/** Returns the first texts, joined by semicolons, and the number of the others. */
export function listed(texts: readonly string[]): string {
  const rest = texts.length - NAMED;
  return [...texts.slice(0, NAMED), ...(rest > 0 ? [`and ${rest} more`] : [])].join("; ");
}
