/** The path of a test run's report, relative to the project. */
export const REPORT = "test-results/report.json";

/** The report of a test run for programs: mocha's JSON report, and further results. */
export interface Report {
  readonly stats: Readonly<Record<string, unknown>>;
  readonly tests: readonly ReportedTest[];
  readonly passes: readonly ReportedTest[];
  readonly pending: readonly (ReportedTest & { readonly reason: string })[];
  readonly failures: readonly ReportedFailure[];
  /** Failures that belong to no test, such as processes left running. */
  readonly furtherFailures: number;
  /**
   * Failures that do not count because their files were run once more, in their order; absent where none was repeated.
   */
  readonly repeated?: readonly ReportedFailure[];
}

/** One test or hook in mocha's JSON report. */
export interface ReportedTest {
  readonly title: string;
  readonly fullTitle: string;
  readonly file?: string | undefined;
  readonly duration?: number | undefined;
  readonly speed?: string | undefined;
  readonly err: ReportedError | Readonly<Record<string, never>>;
}

export interface ReportedFailure extends ReportedTest {
  /** Processor time that the host took from the machine between the end of the previous test and the failure. */
  readonly stolenMilliseconds?: number | undefined;
}

export interface ReportedError {
  readonly name: string;
  readonly message: string;
  readonly stack?: string | undefined;
}

/** The parts of a mocha test or hook that a report holds. */
export interface FinishedTest {
  readonly title: string;
  fullTitle(): string;
  readonly file?: string | undefined;
  readonly duration?: number | undefined;
  readonly speed?: string | undefined;
  readonly err?: Error | undefined;
}

export interface Totals {
  readonly passes: number;
  readonly failures: number;
  readonly pending: number;
}

const REASON = /\[skipped: (?<reason>.*)\]$/;

/** Returns the entry of a test in mocha's JSON report: plain data, as an error may hold cycles and bigints. */
export function reportedTest(test: FinishedTest): ReportedTest {
  const { title, file, duration, speed, err } = test;
  const error = err === undefined ? {} : { name: err.name, message: err.message, stack: err.stack };
  return { title, fullTitle: test.fullTitle(), file, duration, speed, err: error };
}

/** Returns the title of a skipped test with the reason, which {@link skipReason} finds in it. */
export function titleWithReason(title: string, reason: string): string {
  return REASON.test(title) ? title : `${title} [skipped: ${reason}]`;
}

/** Returns why the test with this title was skipped. */
export function skipReason(title: string): string {
  return REASON.exec(title)?.groups?.["reason"] ?? "no reason given";
}

/** Counts the skipped tests for each reason, in the order in which the reasons first occurred. */
export function countReasons(titles: readonly string[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const title of titles) {
    const reason = skipReason(title);
    counts.set(reason, (counts.get(reason) ?? 0) + 1);
  }
  return counts;
}

/** Returns the last line of a run, for people and programs alike: "12 passed, 0 failed, 3 skipped". */
export function summaryLine({ passes, failures, pending }: Totals): string {
  return `${passes} passed, ${failures} failed${pending === 0 ? "" : `, ${pending} skipped`}`;
}
