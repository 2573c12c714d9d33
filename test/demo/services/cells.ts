import type { Family } from "../../../kernel/ip/address.ts";

/** A client that connects to an address of a Service, in one family. */
export interface Cell {
  readonly frontend: string;
  readonly client: string;
  readonly family: Family;
}

/** The pod that answers a client, and the source that it sees. */
export interface Answer {
  readonly by: string;
  /** The source address that arrived. */
  readonly source: string;
  /** The name of that address's owner: "itself" for the client's own. */
  readonly as: string;
}

export const OUTCOMES = ["answered", "no answer", "no route", "refused"] as const;

export type Outcome = (typeof OUTCOMES)[number];

/** The expected result of a cell. */
export interface ExpectedCell extends Cell {
  readonly outcome: Outcome;
  /** All possible answers; empty unless it is answered. */
  readonly answers: readonly Answer[];
  /** Whether session affinity makes one of them answer every time. */
  readonly isSticky: boolean;
}

/** The results of a cell's connections; equal answers and equal failures are listed once. */
export interface SeenCell extends Cell {
  readonly connections: number;
  readonly answers: readonly Answer[];
  /** An {@link Outcome}, or a more detailed text. */
  readonly failures: readonly string[];
}

/** A cell in which both differ, in words. */
export interface CellDifference extends Cell {
  readonly expected: string;
  readonly saw: string;
}

export function cellKey({ frontend, client, family }: Cell): string {
  return `${frontend} ${client} ${family}`;
}

/** Returns every cell that differs, or that was not measured, in the order of the expectation. */
export function compareCells(expected: readonly ExpectedCell[], seen: readonly SeenCell[]): readonly CellDifference[] {
  const seenByKey = new Map(seen.map((cell) => [cellKey(cell), cell]));
  return expected.flatMap((cell) => {
    const measured = seenByKey.get(cellKey(cell));
    if (measured !== undefined && agrees(cell, measured)) return [];
    const { frontend, client, family } = cell;
    return [{ frontend, client, family, expected: expectedText(cell), saw: seenText(measured) }];
  });
}

function agrees({ outcome, answers, isSticky }: ExpectedCell, seen: SeenCell): boolean {
  if (outcome !== "answered") return seen.answers.length === 0 && String(seen.failures) === outcome;
  const allowed = new Set(answers.map(answerKey));
  const areAllowed = seen.answers.every((answer) => allowed.has(answerKey(answer)));
  return seen.failures.length === 0 && areAllowed && seen.answers.length === (isSticky ? 1 : allowed.size);
}

export function answerKey({ by, source }: Answer): string {
  return `${by} ${source}`;
}

function expectedText({ outcome, answers, isSticky }: ExpectedCell): string {
  if (outcome !== "answered") return outcome;
  return `${isSticky ? "always the same one of " : ""}${answersText(answers).join(", ")}`;
}

function seenText(seen: SeenCell | undefined): string {
  if (seen === undefined) return "nothing: not measured";
  return [...answersText(seen.answers), ...seen.failures].join(", ");
}

/** Returns texts such as "b c as node1's bridge": the pods by the source that they see. */
export function answersText(answers: readonly Answer[]): readonly string[] {
  const groups = Map.groupBy(answers, ({ as }) => as);
  return [...groups].map(([as, group]) => `${letters(group)} as ${as}`);
}

/** Returns a pod's letter, or the name of any other party. */
export function letters(answers: readonly Answer[]): string {
  const names = new Set(answers.map(({ by }) => by.replace(/^pod-/, "")));
  return [...names].sort().join(" ");
}
