import { readFileSync } from "node:fs";
import * as v from "valibot";
import { randomFrom } from "../support/random.ts";
import type { FileMutation } from "./trial.ts";

const names = v.pipe(v.array(v.string()), v.readonly());
const outcomeSchema = v.pipe(v.object({ killed: names, survived: names }), v.readonly());

/** The names of mutations, which are their files and ids, by their fates. */
export type Outcome = v.InferOutput<typeof outcomeSchema>;

/** @throws ValiError for a file that is not an outcome */
export function readOutcome(file: string): Outcome {
  return v.parse(outcomeSchema, JSON.parse(readFileSync(file, "utf8")));
}

export function nameOf({ file, id }: FileMutation): string {
  return `${file}:${id}`;
}

/** Returns some of the mutations, in their order; the same ones for the same seed. */
export function sample<T>(mutations: readonly T[], most: number, seed: number): readonly T[] {
  const random = randomFrom(seed);
  const drawn = mutations.map((mutation) => ({ mutation, lot: random() })).sort((one, other) => one.lot - other.lot);
  const chosen = new Set(drawn.slice(0, most).map(({ mutation }) => mutation));
  return mutations.filter((mutation) => chosen.has(mutation));
}

/** Returns the mutations that an earlier run saw killed, and the names of those that the sources have no more. */
export function killedBefore(
  mutations: readonly FileMutation[],
  { killed }: Outcome,
): { readonly mutations: readonly FileMutation[]; readonly gone: readonly string[] } {
  const there = new Set(mutations.map(nameOf));
  const before = new Set(killed);
  return {
    mutations: mutations.filter((mutation) => before.has(nameOf(mutation))),
    gone: killed.filter((name) => !there.has(name)),
  };
}
