import { type Html, inHtml, joined, markupText } from "../../output/markup.ts";
import { counted } from "../../output/text.ts";
import { printable } from "../../../objects/printable.ts";
import { locationText } from "../../input/place.ts";
import { foldLine } from "../../output/fold.ts";
import type { Style } from "../../io.ts";
import type { TestResult } from "./evaluate_expectations.ts";

/** Yields a line for each expectation for people, with the reason and the explanation where it does not hold. */
export function* testText(results: readonly TestResult[], columns: number, style: Style): Generator<string> {
  for (const result of results) {
    const { expectation, outcome, details } = result;
    const word = outcome === "holds" ? style.good("ok  ") : style.bad(outcome === "fails" ? "FAIL" : "????");
    yield foldLine(`${word} ${printable(expectation.name)}: ${printable(verdictText(result))}`, columns, 0, 5);
    if (outcome === "holds") continue;
    yield foldLine(`reason: ${printable(expectation.reason)} (${placeText(result)})`, columns, 5, 7);
    for (const line of details) yield `     ${printable(line)}\n`;
  }
  yield `${countText(results)}\n`;
}

/** Yields TAP 14, one test point for each expectation; the explanation is its YAML diagnostic. */
export function* testTap(results: readonly TestResult[]): Generator<string> {
  yield `TAP version 14\n1..${results.length}\n`;
  for (const [i, result] of results.entries()) {
    const { expectation, outcome, actual, details } = result;
    yield `${outcome === "holds" ? "ok" : "not ok"} ${i + 1} - ${tapText(expectation.name)}\n`;
    if (outcome === "holds") continue;
    const fields = { expected: expectation.expect, actual, reason: expectation.reason, at: placeText(result) };
    yield "  ---\n";
    for (const [key, value] of Object.entries(fields)) yield `  ${key}: ${JSON.stringify(printable(value))}\n`;
    if (details.length > 0) yield `  explanation:\n`;
    for (const line of details) yield `    - ${JSON.stringify(printable(line))}\n`;
    yield "  ...\n";
  }
}

/** Yields JUnit's XML for CI systems: a failure if an expectation does not hold, an error if it cannot be evaluated. */
export function* testJunit(results: readonly TestResult[]): Generator<Html> {
  const failures = results.filter(({ outcome }) => outcome === "fails").length;
  const errors = results.filter(({ outcome }) => outcome === "cannot be judged").length;
  const counts = inHtml`tests="${results.length}" failures="${failures}" errors="${errors}"`;
  yield inHtml`<?xml version="1.0" encoding="UTF-8"?>\n<testsuites ${counts}>\n`;
  yield inHtml`  <testsuite name="drawbridge policy test" ${counts}>\n`;
  for (const result of results) {
    const { expectation, outcome, details } = result;
    const head = inHtml`    <testcase classname="${markupText(expectation.file)}" name="${markupText(expectation.name)}"`;
    if (outcome === "holds") {
      yield inHtml`${head}/>\n`;
      continue;
    }
    const element = outcome === "fails" ? inHtml`failure` : inHtml`error`;
    const texts = [`reason: ${expectation.reason} (${placeText(result)})`, ...details];
    const body = joined(texts.map(markupText), "\n");
    yield inHtml`${head}>\n      <${element} message="${markupText(verdictText(result))}">${body}</${element}>\n    </testcase>\n`;
  }
  yield inHtml`  </testsuite>\n</testsuites>\n`;
}

/** Returns the object that docs/cli.md describes. */
export function testJson(results: readonly TestResult[]): string {
  const tests = results.map(({ expectation, outcome, actual, details, waysIn }) => {
    const { name, from, to, expect, reason, file, line } = expectation;
    return { name, from, to, expect, actual, outcome, reason, file, line, explanation: details, waysIn };
  });
  return `${JSON.stringify({ tests }, null, 2)}\n`;
}

function verdictText({ expectation, outcome, actual }: TestResult): string {
  if (outcome === "holds") return actual;
  return outcome === "fails" ? `expected ${expectation.expect}, but it is ${actual}` : actual;
}

function placeText({ expectation: { file, line } }: TestResult): string {
  return printable(locationText(file, line));
}

function countText(results: readonly TestResult[]): string {
  const count = (outcome: TestResult["outcome"]): number => results.filter((one) => one.outcome === outcome).length;
  const [holding, failing, unknown] = [count("holds"), count("fails"), count("cannot be judged")];
  const rest = unknown === 0 ? "" : `, ${unknown} cannot be judged`;
  return `${counted(results.length, "expectation")}: ${holding} ${holding === 1 ? "holds" : "hold"}, ${failing} ${failing === 1 ? "fails" : "fail"}${rest}`;
}

/** Escapes a description, in which `#` would begin a directive and a backslash escapes. */
function tapText(text: string): string {
  return printable(text).replaceAll("\\", "\\\\").replaceAll("#", "\\#");
}
