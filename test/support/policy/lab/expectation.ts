import assert from "node:assert/strict";
import type { PolicyOptions } from "../../../../policyd/semantics/policies/objects.ts";
import { indexOf } from "../question.ts";
import type { PolicyLab } from "./policy_lab.ts";
import { askEvaluator, askLab, type Question, questionText } from "./question.ts";

/** The verdicts that a test expects. */
export interface Expectation {
  readonly allowed?: readonly Question[];
  /** Flows without an answer and without a refusal (POL-55). */
  readonly denied?: readonly Question[];
}

/** Asserts the outcome of packets in both states of br_netfilter. */
export async function expectPackets(lab: PolicyLab, { allowed = [], denied = [] }: Expectation): Promise<void> {
  const wrong = await lab.inBothStates(async (way) => {
    const answers = await askLab(lab, [...allowed, ...denied]);
    return answers.flatMap(({ question, mark, fate }, place) => {
      const expected = place < allowed.length ? "." : "X";
      return mark === expected
        ? []
        : [`br_netfilter ${way}: ${questionText(question)}: ${mark} ${fate.why}, not ${expected}`];
    });
  });
  assert.deepEqual(wrong.flat(), []);
}

/** Puts objects in force and asserts the outcome of packets, and that the evaluator gives the same verdicts. */
export async function expectOf(
  lab: PolicyLab,
  objects: readonly object[],
  { allowed = [], denied = [] }: Expectation,
  options?: PolicyOptions,
): Promise<void> {
  const index = indexOf(objects, options);
  const disagreeing = [
    ...allowed.filter((question) => askEvaluator(index, lab, question) !== "."),
    ...denied.filter((question) => askEvaluator(index, lab, question) !== "X"),
  ];
  assert.deepEqual(disagreeing.map(questionText), [], "the evaluator gives another verdict");
  await lab.apply(objects);
  await expectPackets(lab, { allowed, denied });
}
