import type { TestResult } from "./result.ts";

/** The message of an unfinished case, before whose end cyclonus ended or was killed. */
export const NOT_ENDED = "did not end";

const LISTED = /^test #(?<number>\d+): (?<description>.*)\n - tags: (?<tags>.*)$/gm;
const CASE = /^starting test case #(?<number>\d+)$/m;
const COUNTS = /^(?:Discrepancy found:)?(?<wrong>\d+) wrong, \d+ ignored, \d+ correct$/gm;

/**
 * Reads cyclonus' output, even an incomplete one. Its JUnit report has only names and states, and exists only after the
 * last case.
 *
 * @returns every case that it listed, in its order. Cases with the same description differ by their tags, or else by a
 *   number.
 */
export function readCyclonus(output: string): readonly TestResult[] {
  const [list = "", ...parts] = output.split(/^(?=starting test case #\d+$)/m);
  const bodies = new Map(parts.map((part) => [CASE.exec(part)?.groups?.["number"] ?? "", part]));
  const seen = new Map<string, number>();
  return [...list.matchAll(LISTED)].map(({ groups }) => {
    const { number = "", description = "", tags = "" } = groups ?? {};
    const name = `${description} [${tags}]`;
    const times = (seen.get(name) ?? 0) + 1;
    seen.set(name, times);
    return {
      title: times === 1 ? name : `${name} (${times})`,
      duration: 0,
      ...judge(bodies.get(number) ?? "", number),
    };
  });
}

function judge(body: string, number: string): Pick<TestResult, "state" | "message"> {
  const counts = [...body.matchAll(COUNTS)].map(({ groups }) => Number(groups?.["wrong"]));
  const differs = counts.some((wrong) => wrong > 0);
  if (differs) return { state: "failed", message: differences(body) };
  const isWhole = counts.length > 0 && body.includes(`\nfinished policy #${number}\n`);
  return isWhole ? { state: "passed", message: "" } : { state: "failed", message: NOT_ENDED };
}

/** Returns the counts of each step that differs, and the table of its differences. */
function differences(body: string): string {
  return body
    .split(/^(?=step \d+ on )/m)
    .filter((step) => step.includes("Discrepancy found:"))
    .map((step) => {
      const title = step.split("\n")[0] ?? "";
      const counts = /Discrepancy found:(?<counts>.*)/.exec(step)?.groups?.["counts"] ?? "";
      const table = /Actual vs expected \(last round\):\n(?<table>(?:[|+].*\n)*)/.exec(step)?.groups?.["table"] ?? "";
      return `${title} ${counts}\n${table}`;
    })
    .join("\n")
    .trim();
}
