import type { NodeFacts } from "./facts.ts";

/** The gravest first: something does not work, something will not, something to know. */
export const SEVERITIES = ["error", "warning", "info"] as const;

export type Severity = (typeof SEVERITIES)[number];

/** The number of things that a remark names. */
const NAMED = 3;

/** What a check has to say. */
export interface Remark {
  readonly severity: Severity;
  /** What is so, with names and values. */
  readonly what: string;
  /** What comes of it. */
  readonly why: string;
  /** What to do about it, with the command. */
  readonly way: string;
}

export interface Finding extends Remark {
  readonly check: string;
}

/** A check that could not be made, and why. */
export interface Unseen {
  readonly check: string;
  readonly reason: string;
  /** Whether root could have made it. */
  readonly needsRoot: boolean;
}

/** One thing the doctor looks at. */
export interface Check {
  /** Stable: people name it in `--only`. */
  readonly id: string;
  /** What it looks at, in one sentence. */
  readonly summary: string;
  /** Facts without which it says nothing. */
  readonly needs: readonly (keyof NodeFacts)[];
  readonly examine: (facts: NodeFacts) => readonly Remark[];
}

/** The first of some things, with semicolons between them, and how many more there are. */
export function listed(texts: readonly string[]): string {
  const rest = texts.length - NAMED;
  return [...texts.slice(0, NAMED), ...(rest > 0 ? [`and ${rest} more`] : [])].join("; ");
}
