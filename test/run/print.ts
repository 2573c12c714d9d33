import type { Finished } from "./pool.ts";
import { countReasons, type FileResult, type Report, summaryLine, type TestResult, totalsOf } from "./result.ts";

const SLOWEST = 10;

/** Returns the line of a file that has ended, and one for each of its tests: for all where asked for, otherwise for failed ones. */
export function fileLines(finished: Finished, withTests: boolean): readonly string[] {
  const { file, milliseconds, processorMilliseconds, tests, output } = finished;
  const { failed, ...totals } = totalsOf([finished]);
  const seconds = `${inSeconds(milliseconds)}, processor ${inSeconds(processorMilliseconds)}`;
  return [
    `${failed === 0 ? "  ok " : "FAIL "} ${file}: ${summaryLine({ ...totals, failed })} (${seconds})`,
    ...tests.filter(({ outcome }) => withTests || outcome === "failed").map(testLine),
    ...output
      .split("\n")
      .filter((line) => line !== "")
      .map((line) => `      | ${line}`),
  ];
}

function testLine({ fullTitle, outcome, milliseconds }: TestResult): string {
  return `      ${outcome} ${fullTitle} (${String(milliseconds)} ms)`;
}

/** Returns the failures in full, the long forms of tests, the reasons of skipped tests, and the totals as the last line. */
export function reportLines({ files, problems }: Report): readonly string[] {
  const longForms = files.flatMap(({ file, longForms: used }) => used.map((form) => `  ${file}: ${form}`));
  const reasons = [...countReasons(files)];
  return [
    "",
    ...files.flatMap(failureLines),
    ...problems.flatMap((problem) => [`FAIL  ${problem}`, ""]),
    ...(longForms.length === 0 ? [] : ["Long forms:", ...longForms, ""]),
    ...(reasons.length === 0
      ? []
      : ["Skipped:", ...reasons.map(([reason, count]) => `  ${String(count)} × ${reason}`), ""]),
    summaryLine(totalsOf(files, problems)),
  ];
}

function failureLines({ file, tests, problems }: FileResult): readonly string[] {
  const failed = tests.filter(({ outcome }) => outcome === "failed");
  return [
    ...failed.flatMap(({ fullTitle, error = "" }) => [`FAIL  ${file}: ${fullTitle}`, indented(error), ""]),
    ...problems.flatMap((problem) => [`FAIL  ${file}: ${problem}`, ""]),
  ];
}

/** Returns the files that took the longest, and the sum of all. */
export function timeLines(files: readonly FileResult[]): readonly string[] {
  const slowest = files.toSorted((a, b) => b.milliseconds - a.milliseconds).slice(0, SLOWEST);
  return [
    "",
    `The slowest ${String(slowest.length)} of ${String(files.length)} files, in seconds of the clock and of the processor:`,
    ...slowest.map(({ file, milliseconds, processorMilliseconds }) => {
      return `  ${inSeconds(milliseconds).padStart(8)} ${inSeconds(processorMilliseconds).padStart(8)}  ${file}`;
    }),
  ];
}

/** Returns a time with its unit: "1.2 s". */
export function inSeconds(milliseconds: number): string {
  return `${(milliseconds / 1000).toFixed(1)} s`;
}

function indented(text: string): string {
  return text
    .split("\n")
    .map((line) => `      ${line}`)
    .join("\n");
}
