import type { Report, ReportedTest } from "../support/report.ts";

/** A failure counts without a repeat if the host took less than this from the processors during its test. */
const STALL_MILLISECONDS = 100;

/**
 * Returns the files to run once more: those whose failures all came while the host had given the processors to other
 * machines, so that a wait may have ended too early.
 */
export function filesToRepeat({ failures }: Report): readonly string[] {
  const files = Map.groupBy(failures, ({ file }) => file);
  const stalled: string[] = [];
  for (const [file, ofFile] of files) {
    if (file === undefined) continue;
    if (ofFile.every((failure) => (failure.stolenMilliseconds ?? 0) >= STALL_MILLISECONDS)) stalled.push(file);
  }
  return stalled;
}

/**
 * Returns a report with the second run's results for some files; the first run's failures in them are listed as
 * repeated.
 */
export function withSecondRun(first: Report, second: Report, files: readonly string[]): Report {
  const isKept = ({ file }: ReportedTest): boolean => file === undefined || !files.includes(file);
  const merged = {
    tests: [...first.tests.filter(isKept), ...second.tests],
    passes: [...first.passes.filter(isKept), ...second.passes],
    pending: [...first.pending.filter(isKept), ...second.pending],
    failures: [...first.failures.filter(isKept), ...second.failures],
    furtherFailures: first.furtherFailures + second.furtherFailures,
    repeated: [...(first.repeated ?? []), ...first.failures.filter((failure) => !isKept(failure))],
  };
  return { stats: { ...first.stats, ...countsOf(merged) }, ...merged };
}

function countsOf({ tests, passes, pending, failures }: Omit<Report, "stats">) {
  return { tests: tests.length, passes: passes.length, pending: pending.length, failures: failures.length };
}
