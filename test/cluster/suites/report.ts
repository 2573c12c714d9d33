import type { Deviation, Expectation } from "./expectation.ts";
import type { TestResult } from "./result.ts";

const SHOWN_LINES = 6;

/** Describes the outcome of a suite in lines: numbers, skipped tests by reason, known failures, and differences. */
export function describeResults(
  name: string,
  results: readonly TestResult[],
  known: Expectation,
  deviations: readonly Deviation[],
): readonly string[] {
  const of = (state: TestResult["state"]): readonly TestResult[] => results.filter((one) => one.state === state);
  const skipped = Map.groupBy(of("skipped"), (one) => known.skipped[one.title] ?? firstLine(one.message));
  const judgement = deviations.length === 0 ? "as expected" : `${deviations.length} tests did not end as expected`;
  return [
    `${name}: ${of("passed").length} passed, ${of("failed").length} failed, ${of("skipped").length} skipped: ${judgement}`,
    ...[...skipped].flatMap(([reason, tests]) => [`  skipped: ${reason}`, ...tests.map(({ title }) => `    ${title}`)]),
    ...of("failed")
      .filter(({ title }) => known.failed[title] !== undefined)
      .map(({ title }) => `  known to fail: ${title}: ${known.failed[title] ?? ""}`),
    ...deviations.flatMap(({ title, expected, actual, message }) => [
      `  ${actual}, expected ${expected}: ${title}`,
      ...message
        .split("\n")
        .slice(0, SHOWN_LINES)
        .filter((line) => line !== "")
        .map((line) => `    ${line}`),
    ]),
  ];
}

function firstLine(text: string): string {
  return text.split("\n")[0] ?? "";
}
