import { type Report, skipReason, type TestResult } from "../run/result.ts";

/** The outcome of a mutant. Only `killed` is good. */
export type Verdict =
  | { readonly kind: "killed"; readonly by: string }
  | { readonly kind: "survived" }
  /** No statement is possible: the test did not run, or failed as with any broken program. */
  | { readonly kind: "unclear"; readonly reason: string };

/** Returns the tests of a run's report; undefined for any other text, as when the file could not be run. */
export function testsIn(json: string | undefined): readonly TestResult[] | undefined {
  if (json === undefined) return undefined;
  try {
    const { files } = JSON.parse(json) as Report;
    return files.flatMap(({ tests }) => tests);
  } catch {
    return undefined;
  }
}

/**
 * Returns why a test cannot be a mutant's witness; undefined when, in the unbroken tree, it exists once, runs and
 * passes.
 */
export function witnessProblem(tests: readonly TestResult[] | undefined, title: string): string | undefined {
  if (tests === undefined) return "its file could not be run";
  const named = testsOf(tests, title);
  const [test] = named;
  if (test === undefined || named.length > 1) return `${named.length} tests of this title have run; expected one`;
  if (test.outcome === "skipped") return `it is skipped: ${skipReason(test.fullTitle)}`;
  return test.outcome === "passed" ? undefined : "it fails in the unbroken tree";
}

/**
 * Returns the verdict from the run of the named test in the broken tree.
 *
 * Only a failure of that very test counts: not a failure of a hook, whose title may contain the test's title, nor a
 * time-out, nor an error that says that the mutant cannot be run.
 */
export function judge(tests: readonly TestResult[] | undefined, title: string): Verdict {
  if (tests === undefined) return { kind: "unclear", reason: "the test could not be loaded" };
  const [test] = testsOf(tests, title);
  if (test === undefined) {
    const failure = tests.find(({ outcome }) => outcome === "failed");
    return {
      kind: "unclear",
      reason: failure === undefined ? "the test did not run" : `did not run: ${firstLineOf(failure)}`,
    };
  }
  switch (test.outcome) {
    case "skipped":
      return { kind: "unclear", reason: `skipped: ${skipReason(test.fullTitle)}` };
    case "passed":
      return { kind: "survived" };
    case "failed":
      return verdictOfFailure(firstLineOf(test));
  }
}

function verdictOfFailure(error: string): Verdict {
  if (/^\w*Error: Timeout of /.test(error)) return { kind: "unclear", reason: "timed out" };
  if (/^(Syntax|Reference)Error\b/.test(error)) return { kind: "unclear", reason: error };
  return { kind: "killed", by: error };
}

function testsOf(tests: readonly TestResult[], title: string): readonly TestResult[] {
  return tests.filter(({ fullTitle, isHook }) => isHook !== true && fullTitle.includes(title));
}

function firstLineOf({ error = "" }: TestResult): string {
  return (error.trim().split("\n")[0] ?? "").slice(0, 200);
}
