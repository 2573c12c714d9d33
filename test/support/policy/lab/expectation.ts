import assert from "node:assert/strict";
import type { PolicyOptions } from "../../../../objects/semantics/policies/objects.ts";
import { indexOf } from "../question.ts";
import type { PolicyLab } from "./policy_lab.ts";
import { askEvaluator, askLab, type Question, questionText } from "./question.ts";

/** The verdicts that a test expects. */
export interface Expectation {
  readonly allowed?: readonly Question[];
  /** Flows without an answer and without a refusal (POL-55). */
  readonly denied?: readonly Question[];
}

/** In milliseconds; an answer that has to come may take so long on a busy machine. */
const PATIENCE_MILLISECONDS = 20_000;

/**
 * Asserts the outcome of packets in both states of br_netfilter; of those that leave a node, once, since the bridge only
 * routes these.
 */
export async function expectPackets(lab: PolicyLab, { allowed = [], denied = [] }: Expectation): Promise<void> {
  const isBridged = ({ from, to }: Question): boolean => !lab.areApart(from, to);
  const bridged = { allowed: allowed.filter(isBridged), denied: denied.filter(isBridged) };
  const problems = await lab.inBothStates(async (way) =>
    (await problemsOf(lab, way === "as made" ? { allowed, denied } : bridged)).map(
      (problem) => `br_netfilter ${way}: ${problem}`,
    ),
  );
  assert.deepEqual(problems.flat(), []);
}

/** Asserts the outcome of packets in the present state of br_netfilter. */
export async function expectAnswers(lab: PolicyLab, expectation: Expectation): Promise<void> {
  assert.deepEqual(await problemsOf(lab, expectation), []);
}

async function problemsOf(lab: PolicyLab, { allowed = [], denied = [] }: Expectation): Promise<readonly string[]> {
  const answers = [...(await askLab(lab, allowed, PATIENCE_MILLISECONDS)), ...(await askLab(lab, denied))];
  return [...allowed, ...denied].flatMap((question, place) => {
    const { mark, why } = answers[place] ?? assert.fail("fewer answers than questions");
    const expected = place < allowed.length ? "." : "X";
    return mark === expected ? [] : [`${questionText(question)}: ${mark} ${why}, not ${expected}`];
  });
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
