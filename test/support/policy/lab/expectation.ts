import assert from "node:assert/strict";
import type { PolicyOptions } from "../../../../objects/semantics/policies/objects.ts";
import { indexOf } from "../question.ts";
import type { PolicyLab } from "./policy_lab.ts";
import { type Answer, askEvaluator, askLab, type Question, questionText } from "./question.ts";

/** The verdicts that a test expects. */
export interface Expectation {
  readonly allowed?: readonly Question[];
  /** Flows without an answer and without a refusal (POL-55). */
  readonly denied?: readonly Question[];
}

/** Asserts the outcome of packets in both states of br_netfilter. */
export async function expectPackets(lab: PolicyLab, expectation: Expectation): Promise<void> {
  const questions = expectedOf(expectation);
  assert.deepEqual(await askInBothStates(lab, questions, problemsOf), []);
}

/** Asserts the outcome of packets in the present state of br_netfilter. */
export async function expectAnswers(lab: PolicyLab, expectation: Expectation): Promise<void> {
  const questions = expectedOf(expectation);
  const answers = await askLab(lab, questions);
  const problems = answers.flatMap((answer, place) => {
    const question = questions[place];
    return question === undefined ? [] : problemsOf(question, answer);
  });
  assert.deepEqual(problems, []);
}

type Expected = Question & { readonly expected: "." | "X" };

function expectedOf({ allowed = [], denied = [] }: Expectation): readonly Expected[] {
  return [
    ...allowed.map((question) => ({ ...question, expected: "." as const })),
    ...denied.map((question) => ({ ...question, expected: "X" as const })),
  ];
}

function problemsOf(question: Expected, { mark, fate }: Answer): readonly string[] {
  const { expected } = question;
  return mark === expected ? [] : [`${questionText(question)}: ${mark} ${fate.why}, not ${expected}`];
}

/**
 * Asks questions in both states of br_netfilter; those about packets that leave a node, once, since the bridge only
 * routes these.
 *
 * @param wrongIn returns what is wrong with an answer
 * @returns all problems, with the state
 */
async function askInBothStates<Q extends Question>(
  lab: PolicyLab,
  questions: readonly Q[],
  wrongIn: (question: Q, answer: Answer) => readonly string[],
): Promise<readonly string[]> {
  const problems = await lab.inBothStates(async (way) => {
    const asked = way === "as made" ? questions : questions.filter(({ from, to }) => !lab.areApart(from, to));
    if (asked.length === 0) return [];
    const answers = await askLab(lab, asked);
    return asked.flatMap((question, place) => {
      const answer = answers[place] ?? assert.fail("fewer answers than questions");
      return wrongIn(question, answer).map((problem) => `br_netfilter ${way}: ${problem}`);
    });
  });
  return problems.flat();
}

/** Puts objects in force and asserts the outcome of packets, and that the evaluator gives the same verdicts. */
export async function expectOf(
  lab: PolicyLab,
  objects: readonly object[],
  expectation: Expectation,
  options?: PolicyOptions,
): Promise<void> {
  assertEvaluator(lab, objects, expectation, options);
  await lab.apply(objects);
  await expectPackets(lab, expectation);
}

/** Asserts that the evaluator gives these verdicts. */
export function assertEvaluator(
  lab: PolicyLab,
  objects: readonly object[],
  { allowed = [], denied = [] }: Expectation,
  options?: PolicyOptions,
): void {
  const index = indexOf(objects, options);
  const disagreeing = [
    ...allowed.filter((question) => askEvaluator(index, lab, question) !== "."),
    ...denied.filter((question) => askEvaluator(index, lab, question) !== "X"),
  ];
  assert.deepEqual(disagreeing.map(questionText), [], "the evaluator gives another verdict");
}
