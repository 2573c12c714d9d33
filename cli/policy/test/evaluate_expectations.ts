import { attempt } from "../../../kernel/error.ts";
import { styleOf } from "../../io.ts";
import type { ExplainContext } from "../explain/context.ts";
import { explain } from "../explain/explain.ts";
import { answerOf, isAnswer, type WayInReport } from "../explain/explanation.ts";
import { trafficTo } from "../explain/port_name.ts";
import { explanationText } from "../explain/print.ts";
import { explainWaysIn } from "../explain/ways_in.ts";
import { endsOfQuestion } from "../question_ends.ts";
import type { Expectation } from "./expectation.ts";

/** The outcome of an expectation. */
export interface TestResult {
  readonly expectation: Expectation;
  readonly outcome: "holds" | "fails" | "cannot be judged";
  /** The actual answer in one line: `allowed`, `denied in part`, or why it cannot be evaluated. */
  readonly actual: string;
  /** The explanation, line by line, if the expectation does not hold. */
  readonly details: readonly string[];
  /** The Ingresses and routes by which connections still come in, where something is denied. */
  readonly waysIn: readonly string[];
  /** Those of which it is not known. */
  readonly unknownWaysIn: readonly string[];
}

const NO_WAYS = { waysIn: [], unknownWaysIn: [] };
const COLUMNS = 120;
const MOST_LINES = 30;

/** Evaluates expectations one by one; a name that does not exist leads to a result like any other. */
export function evaluateAll(
  context: ExplainContext,
  expectations: readonly Expectation[],
  namespace: string,
): readonly TestResult[] {
  return expectations.map((expectation) => {
    return attempt(
      () => evaluate(context, expectation, namespace),
      (error) => ({ expectation, outcome: "cannot be judged", actual: error.message, details: [], ...NO_WAYS }),
    );
  });
}

function evaluate(context: ExplainContext, expectation: Expectation, namespace: string): TestResult {
  const { from, to, port, expect } = expectation;
  const ends = endsOfQuestion(context, { from, to }, namespace);
  const question = { ...ends, traffic: trafficTo(ends.to, port) };
  const explanation = { ...explain(context, question), waysIn: explainWaysIn(context, question) };
  const answer = answerOf(explanation);
  if (!isAnswer(answer)) {
    const { unknown = [], names = [] } = explanation;
    const actual =
      answer === "not known"
        ? `not known: ${unknown.join("; ")}`
        : `it depends on the addresses that DNS gives for ${names.join(", ")}; name one of these as the end`;
    return { expectation, outcome: "cannot be judged", actual, details: [], ...NO_WAYS };
  }
  // A connection that is allowed only in some cases is neither allowed nor denied: each word covers all cases.
  const holds = answer === expect;
  const namesOf = (isMeant: (way: WayInReport) => boolean | undefined): readonly string[] =>
    expect === "denied" ? explanation.waysIn.filter(isMeant).map(({ name }) => name) : [];
  const ways = { waysIn: namesOf(({ open }) => open), unknownWaysIn: namesOf(({ unknown }) => unknown) };
  if (holds) return { expectation, outcome: "holds", actual: answer, details: [], ...ways };
  const lines = explanationText(explanation, styleOf({ hasColour: false }), COLUMNS)
    .trimEnd()
    .split("\n");
  const rest = lines.length > MOST_LINES ? [`and ${lines.length - MOST_LINES} more lines: policy explain has all`] : [];
  return { expectation, outcome: "fails", actual: answer, details: [...lines.slice(0, MOST_LINES), ...rest], ...ways };
}
