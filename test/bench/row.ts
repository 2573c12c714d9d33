import { type Estimate, estimateRatio, median, type Pair } from "./statistics.ts";

/** The ratio that counts as reached. */
export type Goal =
  | { readonly kind: "at most"; readonly ratio: number }
  | { readonly kind: "at least"; readonly ratio: number };

/** The measurements of one scenario. */
export interface Measured {
  /** The scenario's name for people and in the JSON file ("ADD, dual-stack"). */
  readonly title: string;
  readonly unit: "ms" | "MB" | "Gbit/s" | "kpackets/s";
  readonly pairs: readonly Pair[];
  readonly goal: Goal | undefined;
  /** A remark that a reader needs to understand these numbers. */
  readonly remark?: string;
}

/** A measured scenario with its statistics. */
export interface Row extends Measured {
  readonly ours: number;
  readonly peer: number;
  /** Absent when the peer has another version than the goals are written for. */
  readonly estimate: Estimate | undefined;
  /** Whether the whole interval is on the goal's good side; undefined without a goal or an estimate. */
  readonly isShown: boolean | undefined;
}

/**
 * Returns the statistics of a scenario.
 *
 * @param comparable false when no ratio against this peer may be given
 */
export function rowOf(measured: Measured, comparable: boolean): Row {
  const estimate = comparable ? estimateRatio(measured.pairs) : undefined;
  return {
    ...measured,
    ours: median(measured.pairs.map(({ ours }) => ours)),
    peer: median(measured.pairs.map(({ peer }) => peer)),
    estimate,
    isShown: estimate === undefined || measured.goal === undefined ? undefined : reaches(estimate, measured.goal),
  };
}

/** Whether a goal is reached, even by the less favourable end of the interval. */
export function reaches(estimate: Estimate, goal: Goal): boolean {
  return goal.kind === "at most" ? estimate.high <= goal.ratio : estimate.low >= goal.ratio;
}

/**
 * Makes pairs of measurements, A/B then B/A and so on, which spreads a drift or an advantage of the second evenly.
 *
 * @returns ours and the peer's of each round
 */
export function interleave<T>(
  count: number,
  ours: (round: number) => T,
  peer: (round: number) => T,
  afterEach: (done: number) => void = () => {},
): readonly { readonly ours: T; readonly peer: T }[] {
  return Array.from({ length: count }, (_, round) => {
    const pair = onePair(round, ours, peer);
    afterEach(round + 1);
    return pair;
  });
}

/** Makes one pair; the order of its halves depends on the round. */
export function onePair<T>(
  round: number,
  ours: (round: number) => T,
  peer: (round: number) => T,
): { readonly ours: T; readonly peer: T } {
  if (round % 2 === 0) {
    const first = ours(round);
    return { ours: first, peer: peer(round) };
  }
  const first = peer(round);
  return { ours: ours(round), peer: first };
}
