import { FAMILIES } from "./place.ts";
import type { Answer, Question } from "./question.ts";
import { differenceText, type Mark, type TruthTable } from "./truth_table.ts";

/** Returns a table of expected and one of observed marks for each family. */
export function tablesOf(
  answers: readonly Answer[],
  expect: (question: Question) => Mark,
): readonly (readonly [expected: TruthTable, seen: TruthTable])[] {
  return FAMILIES.map((family) => {
    const ours = answers.filter(({ question }) => question.family === family);
    const byPlace = new Map(ours.map((answer) => [placeOf(answer.question), answer]));
    const shape = {
      title: `IPv${family}`,
      ends: [...new Set(ours.flatMap(({ question: { from, to } }) => [from, to]))],
      traffics: [...new Set(ours.map(({ question: { traffic } }) => traffic))],
    };
    const found = (from: string, to: string, traffic: string): Answer | undefined =>
      byPlace.get(placeOf({ from, to, traffic }));
    return [
      {
        ...shape,
        mark: (from, to, traffic) => {
          const answer = found(from, to, traffic);
          return answer === undefined ? undefined : expect(answer.question);
        },
      },
      { ...shape, mark: (from, to, traffic) => found(from, to, traffic)?.mark },
    ];
  });
}

/** Returns tables of the answers that differ from the expectation; empty where none does. */
export function answersText(answers: readonly Answer[], expect: (question: Question) => Mark): string {
  return tablesOf(answers, expect)
    .map(([expected, seen]) => differenceText(expected, seen))
    .filter((text) => text !== "")
    .join("\n\n");
}

function placeOf({
  from,
  to,
  traffic,
}: {
  readonly from: string;
  readonly to: string;
  readonly traffic: string;
}): string {
  return `${from} ${to} ${traffic}`;
}
