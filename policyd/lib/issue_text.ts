import * as v from "valibot";

const LONGEST_SHOWN = 80;

/** The expected kinds of values, by the type of a schema. */
const KINDS: ReadonlyMap<string, string> = new Map([
  ["array", "a list"],
  ["boolean", "true or false"],
  ["iso_timestamp", "a moment such as 2026-01-02T03:04:05Z"],
  ["number", "a number"],
  ["object", "an object"],
  ["safe_integer", "an integer"],
  ["strict_object", "an object"],
  ["string", "a text"],
]);

const LIMITS: ReadonlyMap<string, string> = new Map([
  ["min_value", "at least"],
  ["max_value", "at most"],
  ["min_length", "a length of at least"],
  ["max_length", "a length of at most"],
]);

/**
 * Returns what is wrong with a value that a schema refuses: its field, the value, and what was expected, which is the
 * schema's own message where it has one.
 *
 * @param whole stands for the field where the whole value is wrong: `flow`
 */
export function issueText(issue: v.BaseIssue<unknown>, whole: string): string {
  const field = v.getDotPath(issue) ?? whole;
  if (issue.input === undefined) return `${field} is missing${isOwn(issue) ? `; expected ${issue.message}` : ""}`;
  const { input } = issue;
  const shown = Array.isArray(input) ? "a list" : typeof input === "object" && input !== null ? "an object" : undefined;
  const value = shown ?? JSON.stringify(input).slice(0, LONGEST_SHOWN);
  return `${field}: ${value}; expected ${expectation(issue)}`;
}

/** Returns whether a schema has its own message for an issue. */
function isOwn({ message }: v.BaseIssue<unknown>): boolean {
  return !message.startsWith("Invalid ");
}

function expectation(issue: v.BaseIssue<unknown>): string {
  const { type, message, expected, requirement } = issue;
  if (isOwn(issue)) return message;
  const limit = LIMITS.get(type);
  if (limit !== undefined) return `${limit} ${String(requirement)}`;
  const values = (expected ?? "another value").replaceAll(/["()]/g, "").split(" | ");
  return KINDS.get(type) ?? (values.length === 1 ? values.join() : `one of ${values.join(", ")}`);
}
