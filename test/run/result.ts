/** The path of a test run's report, relative to the project. */
export const REPORT = "test-results/report.json";

/** The report of a run of the tests, for programs. */
export interface Report {
  /** The seed of the files' order. */
  readonly seed: number;
  readonly files: readonly FileResult[];
  /** Failures that belong to no file, such as a changed setting of the machine. */
  readonly problems: readonly string[];
}

/** The results of one test file. */
export interface FileResult {
  /** Relative to the project. */
  readonly file: string;
  readonly tests: readonly TestResult[];
  /** Failures that belong to no test, such as a process left running. */
  readonly problems: readonly string[];
  /** The long forms of its tests, in `npm run test:full`. */
  readonly longForms: readonly string[];
  readonly milliseconds: number;
  /** The processor time of the process that ran it and of the children that it waited for. */
  readonly processorMilliseconds: number;
  /** The memory of the process that ran it, afterwards. */
  readonly megabytes: number;
}

/** The result of one test, or of a hook that failed. */
export interface TestResult {
  /** With the titles of the suites around it. */
  readonly fullTitle: string;
  readonly outcome: "passed" | "failed" | "skipped";
  readonly milliseconds: number;
  /** A failed hook has no other result. */
  readonly isHook?: true;
  /** Why it failed: the error's stack, or its text where it has none. */
  readonly error?: string;
}

export interface Totals {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
}

const REASON = /\[skipped: (?<reason>.*)\]$/;

/** Returns the title of a skipped test with the reason, which {@link skipReason} finds in it. */
export function titleWithReason(title: string, reason: string): string {
  return REASON.test(title) ? title : `${title} [skipped: ${reason}]`;
}

/** Returns why the test with this title was skipped. */
export function skipReason(title: string): string {
  return REASON.exec(title)?.groups?.["reason"] ?? "no reason given";
}

/** Counts tests by outcome; a problem counts as a failure. */
export function totalsOf(files: readonly FileResult[], problems: readonly string[] = []): Totals {
  const tests = files.flatMap((file) => file.tests);
  const count = (wanted: TestResult["outcome"]): number => tests.filter(({ outcome }) => outcome === wanted).length;
  const furtherFailures = problems.length + files.flatMap((file) => file.problems).length;
  return { passed: count("passed"), failed: count("failed") + furtherFailures, skipped: count("skipped") };
}

/** Counts the skipped tests for each reason, in the order in which the reasons first occurred. */
export function countReasons(files: readonly FileResult[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const { fullTitle, outcome } of files.flatMap(({ tests }) => tests)) {
    if (outcome !== "skipped") continue;
    const reason = skipReason(fullTitle);
    counts.set(reason, (counts.get(reason) ?? 0) + 1);
  }
  return counts;
}

/** Returns the last line of a run, for people and programs alike: "12 passed, 0 failed, 3 skipped". */
export function summaryLine({ passed, failed, skipped }: Totals): string {
  return `${passed} passed, ${failed} failed${skipped === 0 ? "" : `, ${skipped} skipped`}`;
}
