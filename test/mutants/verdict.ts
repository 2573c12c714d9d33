import * as v from "valibot";

/** The outcome of a mutant. Only `killed` is good. */
export type Verdict =
  | { readonly kind: "killed"; readonly by: string }
  | { readonly kind: "survived" }
  /** No statement is possible: the test did not run, or failed as with any broken program. */
  | { readonly kind: "unclear"; readonly reason: string };

const testSchema = v.object({
  fullTitle: v.string(),
  err: v.object({ name: v.optional(v.string()), message: v.optional(v.string()) }),
});

const reportSchema = v.object({
  tests: v.array(testSchema),
  passes: v.array(testSchema),
  pending: v.array(v.object({ fullTitle: v.string(), reason: v.optional(v.string()) })),
  failures: v.array(testSchema),
});

/** The parts of test-results/report.json that matter for the verdict. */
export type Report = v.InferOutput<typeof reportSchema>;

/** Reads a report; returns undefined for any other text, as when no test could be loaded. */
export function parseReport(json: string | undefined): Report | undefined {
  if (json === undefined) return undefined;
  try {
    const parsed = v.safeParse(reportSchema, JSON.parse(json));
    return parsed.success ? parsed.output : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Returns why a test cannot be a mutant's witness; undefined when, in the unbroken tree, it exists once, runs and
 * passes.
 */
export function witnessProblem(report: Report | undefined, title: string): string | undefined {
  if (report === undefined) return "its file could not be run";
  const named = report.tests.filter(({ fullTitle }) => fullTitle.includes(title));
  if (named.length !== 1) return `${named.length} tests of this title have run; expected one`;
  const [reason] = skipReasons(report, title);
  if (reason !== undefined) return `it is skipped: ${reason}`;
  return report.passes.some(({ fullTitle }) => fullTitle.includes(title)) ? undefined : "it fails in the unbroken tree";
}

/**
 * Returns the verdict from the run of the named test in the broken tree.
 *
 * Only a failure of that very test counts: not a failure of a hook, whose title may contain the test's title, nor a
 * time-out, nor an error that says that the mutant cannot be run.
 */
export function judge(report: Report | undefined, title: string): Verdict {
  if (report === undefined) return { kind: "unclear", reason: "the test could not be loaded" };
  const [reason] = skipReasons(report, title);
  if (reason !== undefined) return { kind: "unclear", reason: `skipped: ${reason}` };
  const [test] = report.tests.filter(({ fullTitle }) => fullTitle.includes(title));
  if (test === undefined) {
    const [failure] = report.failures;
    return {
      kind: "unclear",
      reason: failure === undefined ? "the test did not run" : `did not run: ${describe(failure)}`,
    };
  }
  if (!report.failures.some(({ fullTitle }) => fullTitle === test.fullTitle)) return { kind: "survived" };
  const { name = "", message = "" } = test.err;
  if (message.startsWith("Timeout of ")) return { kind: "unclear", reason: "timed out" };
  if (name === "SyntaxError" || name === "ReferenceError") return { kind: "unclear", reason: describe(test) };
  return { kind: "killed", by: describe(test) };
}

function skipReasons(report: Report, title: string): readonly string[] {
  return report.pending
    .filter(({ fullTitle }) => fullTitle.includes(title))
    .map(({ reason }) => reason ?? "no reason given");
}

function describe({ err }: Report["tests"][number]): string {
  const [firstLine = ""] = (err.message ?? "").trim().split("\n");
  return `${err.name ?? "Error"}: ${firstLine.slice(0, 200)}`;
}
