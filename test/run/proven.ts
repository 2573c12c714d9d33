import { readFileSync } from "node:fs";
import { type FileResult, skipReason } from "./result.ts";

/** Matches a behaviour's ID in a test title: POD-01, P5, B18, I2. */
const ID = /(?<![\w-])(?:[A-Z]{2,9}-\d{2}|[A-Z]\d{1,2})(?![\w-])/g;
const ROW = /^\* ([A-Z]+-?\d+): .{10,}/gm;
/** The reason of tests that only the long form of a run has. */
const LONG = "npm run test:full";

/**
 * Compares the promises of docs/behaviours.md with the tests of a whole run.
 *
 * @returns a problem for each promise that no passed test has in its title, except where all its tests are long forms,
 *   and for each ID in a title that is not a promise
 */
export function provenBehaviours(files: readonly FileResult[]): readonly string[] {
  const promised = new Set([...readFileSync("docs/behaviours.md", "utf8").matchAll(ROW)].map(([, id = ""]) => id));
  return compareBehaviours(promised, files);
}

/** Does the comparison of {@link provenBehaviours}. @param promised IDs */
export function compareBehaviours(promised: ReadonlySet<string>, files: readonly FileResult[]): readonly string[] {
  const proven = new Set<string>();
  const named = new Set<string>();
  for (const { fullTitle, outcome } of files.flatMap(({ tests }) => tests)) {
    const isProof = outcome === "passed" || (outcome === "skipped" && skipReason(fullTitle).includes(LONG));
    for (const [id] of fullTitle.matchAll(ID)) {
      named.add(id);
      if (isProof) proven.add(id);
    }
  }
  return [
    ...[...promised].filter((id) => !proven.has(id)).map((id) => `no test of the promise ${id} has passed`),
    ...[...named].filter((id) => !promised.has(id)).map((id) => `a test names ${id}, which docs/behaviours.md lacks`),
  ];
}
