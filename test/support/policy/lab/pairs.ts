import { KEYS } from "../three_by_three.ts";
import type { Expectation } from "./expectation.ts";
import { inBoth, type Traffic } from "./question.ts";

/** Whether the flows of a pair of the nine pods are denied. */
export type IsDenied = (from: string, to: string) => boolean;

/** Returns the expectation for all pairs of the nine pods over some traffic: these are denied, all others pass. */
export function pairs(isDenied: IsDenied, ...traffics: readonly Traffic[]): Required<Expectation> {
  const all = KEYS.flatMap((from) => KEYS.map((to) => [from, to] as const));
  const over = traffics.length === 0 ? (["80/TCP"] as const) : traffics;
  const questions = (wanted: boolean) =>
    all
      .filter(([from, to]) => (from !== to && isDenied(from, to)) === wanted)
      .flatMap(([from, to]) => inBoth(from, to, ...over));
  return { allowed: questions(false), denied: questions(true) };
}

/** Joins expectations. */
export function together(...all: readonly Expectation[]): Expectation {
  return {
    allowed: all.flatMap(({ allowed = [] }) => allowed),
    denied: all.flatMap(({ denied = [] }) => denied),
  };
}
