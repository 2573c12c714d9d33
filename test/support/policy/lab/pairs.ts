import { KEYS } from "../three_by_three.ts";
import type { Expectation } from "./expectation.ts";
import type { Traffic } from "./question.ts";
import { inBoth } from "./question.ts";

/** Whether a pair of the nine pods is cut. */
export type IsDenied = (from: string, to: string) => boolean;

/** All pairs of the nine pods over some traffic: these are cut, all others pass. */
export function pairs(isDenied: IsDenied, ...traffics: readonly Traffic[]): Required<Expectation> {
  const all = KEYS.flatMap((from) => KEYS.map((to) => [from, to] as const));
  const over = traffics.length === 0 ? (["80/TCP"] as const) : traffics;
  const questions = (wanted: boolean) =>
    all
      .filter(([from, to]) => (from !== to && isDenied(from, to)) === wanted)
      .flatMap(([from, to]) => inBoth(from, to, ...over));
  return { allowed: questions(false), denied: questions(true) };
}

/** Expectations together. */
export function together(...all: readonly Expectation[]): Expectation {
  return {
    allowed: all.flatMap(({ allowed = [] }) => allowed),
    denied: all.flatMap(({ denied = [] }) => denied),
  };
}
