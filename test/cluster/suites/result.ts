import * as v from "valibot";

/** The outcome of one test. */
export interface TestResult {
  readonly title: string;
  readonly state: "passed" | "failed" | "skipped";
  /** The message of a failure, or the reason of a test that skipped itself. */
  readonly message: string;
  /** Seconds. */
  readonly duration: number;
}

const REPORT = v.array(
  v.object({
    SpecReports: v.nullable(
      v.array(
        v.object({
          ContainerHierarchyTexts: v.nullable(v.array(v.string())),
          LeafNodeType: v.string(),
          LeafNodeText: v.string(),
          State: v.string(),
          RunTime: v.number(),
          Failure: v.optional(v.object({ Message: v.optional(v.string(), "") })),
        }),
      ),
    ),
  }),
);

const NANOSECONDS = 1e9;

/**
 * Reads Ginkgo's JSON report.
 *
 * @returns the tests that ran or skipped themselves, sorted by title, without those that focus and skip omitted
 */
export function readResults(json: string): readonly TestResult[] {
  return v
    .parse(REPORT, JSON.parse(json))
    .flatMap(({ SpecReports }) => SpecReports ?? [])
    .filter(({ LeafNodeType, State, Failure }) => {
      if (LeafNodeType !== "It") return State === "failed";
      return State !== "pending" && (State !== "skipped" || (Failure?.Message ?? "") !== "");
    })
    .map(({ ContainerHierarchyTexts, LeafNodeType, LeafNodeText, State, RunTime, Failure }) => ({
      title: [...(ContainerHierarchyTexts ?? []), LeafNodeText === "" ? LeafNodeType : LeafNodeText].join(" "),
      state: stateOf(State),
      message: Failure?.Message ?? "",
      duration: RunTime / NANOSECONDS,
    }))
    .toSorted((a, b) => (a.title < b.title ? -1 : 1));
}

const RESULTS = v.array(
  v.object({
    title: v.string(),
    state: v.picklist(["passed", "failed", "skipped"]),
    message: v.string(),
    duration: v.number(),
  }),
);

/** Reads results that were stored as JSON. */
export function parseResults(json: string): readonly TestResult[] {
  return v.parse(RESULTS, JSON.parse(json));
}

/**
 * Reads Ginkgo's state of a test. Its further states, panicked, interrupted, aborted and timedout, are all failures.
 */
function stateOf(state: string): TestResult["state"] {
  return state === "passed" || state === "skipped" ? state : "failed";
}
