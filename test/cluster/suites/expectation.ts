import * as v from "valibot";
import { parse } from "yaml";
import type { TestResult } from "./result.ts";

/** The known results of a suite: the titles of its tests, and why some do not pass. */
export interface Expectation {
  readonly passed: readonly string[];
  /** Reasons by title. */
  readonly skipped: Readonly<Record<string, string>>;
  readonly failed: Readonly<Record<string, string>>;
}

const EXPECTATION = v.object({
  passed: v.array(v.string()),
  skipped: v.record(v.string(), v.string()),
  failed: v.record(v.string(), v.string()),
});

/** Reads a recorded expectation. */
export function readExpectation(text: string): Expectation {
  return v.parse(EXPECTATION, parse(text));
}

/** A test that ended otherwise than expected. */
export interface Deviation {
  readonly title: string;
  readonly expected: TestResult["state"] | "nothing";
  readonly actual: TestResult["state"] | "nothing";
  readonly message: string;
}

/**
 * Compares results with the expectation and lists each test that differs, including one that is new, that did not run,
 * or that passes although it is known to fail.
 */
export function compareResults(expectation: Expectation, results: readonly TestResult[]): readonly Deviation[] {
  const expected = new Map<string, TestResult["state"]>([
    ...expectation.passed.map((title) => [title, "passed"] as const),
    ...Object.keys(expectation.skipped).map((title) => [title, "skipped"] as const),
    ...Object.keys(expectation.failed).map((title) => [title, "failed"] as const),
  ]);
  const ran = new Map(results.map((result) => [result.title, result]));
  const titles = [...new Set([...expected.keys(), ...ran.keys()])].toSorted();
  return titles
    .map((title) => ({
      title,
      expected: expected.get(title) ?? ("nothing" as const),
      actual: ran.get(title)?.state ?? ("nothing" as const),
      message: ran.get(title)?.message ?? "",
    }))
    .filter((one) => one.expected !== one.actual);
}

/** Returns the expectation that these results meet, with the known reasons. */
export function expectationOf(results: readonly TestResult[], known: Expectation): Expectation {
  const sorted = results.toSorted((a, b) => (a.title < b.title ? -1 : 1));
  const titles = (state: TestResult["state"]) => sorted.filter((one) => one.state === state);
  const withReason = (state: "skipped" | "failed"): Readonly<Record<string, string>> =>
    Object.fromEntries(
      titles(state).map(({ title, message }) => [title, known[state][title] ?? message.split("\n")[0] ?? ""]),
    );
  return {
    passed: titles("passed").map(({ title }) => title),
    skipped: withReason("skipped"),
    failed: withReason("failed"),
  };
}
