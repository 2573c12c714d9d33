import { type Estimate, estimateRatio, median, type Pair } from "./statistics.ts";

export type Unit = "ms" | "µs" | "MB" | "%" | "Gbit/s" | "kpackets/s";

/** One finding of a benchmark. */
export interface Row {
  readonly title: string;
  readonly unit: Unit;
  /** Medians, unless the title says otherwise. */
  readonly ours: number;
  /** Absent where nothing is compared. */
  readonly peer?: number;
  readonly against?: string;
  /** The estimate of ours / peer; where nothing is compared, of ours. */
  readonly estimate?: Estimate;
  readonly goal?: string;
  /** Whether the whole interval is on the goal's good side; absent without a goal. */
  readonly isReached?: boolean;
  readonly remark?: string;
  /** All measured values. */
  readonly values: readonly number[] | readonly Pair[];
}

/** A goal for a comparison: a largest or smallest ratio. */
type ComparedGoal = { readonly ratioAtMost: number } | { readonly ratioAtLeast: number };

/** Returns a row of pairs, ours and the peer's. */
export function compared(title: string, unit: Unit, against: string, pairs: readonly Pair[], goal?: ComparedGoal): Row {
  const estimate = estimateRatio(pairs);
  return {
    title,
    unit,
    against,
    ours: median(pairs.map(({ ours }) => ours)),
    peer: median(pairs.map(({ peer }) => peer)),
    estimate,
    values: pairs,
    ...(goal === undefined ? {} : judged(goal, estimate)),
  };
}

function judged(goal: ComparedGoal, estimate: Estimate): Pick<Row, "goal" | "isReached"> {
  if ("ratioAtLeast" in goal) return { goal: `≥ ${goal.ratioAtLeast} ×`, isReached: estimate.low >= goal.ratioAtLeast };
  return { goal: `≤ ${goal.ratioAtMost} ×`, isReached: estimate.high <= goal.ratioAtMost };
}

/** Returns a row of values with the largest permitted median. */
export function measured(title: string, unit: Unit, values: readonly number[], most?: number): Row {
  const estimate = estimateRatio(values.map((ours) => ({ ours, peer: 1 })));
  return {
    title,
    unit,
    ours: estimate.ratio,
    estimate,
    values,
    ...(most === undefined ? {} : { goal: `≤ ${most} ${unit}`, isReached: estimate.high <= most }),
  };
}

/** Returns a row of one number with the largest permitted value. */
export function found(title: string, unit: Unit, value: number, most: number, remark?: string): Row {
  const goal = { goal: `≤ ${most} ${unit}`, isReached: value <= most };
  return { title, unit, ours: value, values: [value], ...goal, ...(remark === undefined ? {} : { remark }) };
}

/** The halves of one round. */
export interface Halves<T> {
  readonly ours: T;
  readonly peer: T;
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
): readonly Halves<T>[] {
  return Array.from({ length: count }, (_, round) => {
    const pair = onePair(round, ours, peer);
    afterEach(round + 1);
    return pair;
  });
}

/** Makes one pair; the order of its halves depends on the round. */
export function onePair<T>(round: number, ours: (round: number) => T, peer: (round: number) => T): Halves<T> {
  if (round % 2 === 0) {
    const first = ours(round);
    return { ours: first, peer: peer(round) };
  }
  const first = peer(round);
  return { ours: ours(round), peer: first };
}

/** Does the same as {@link onePair} with measurements each of which ends before the next begins. */
export async function onePairInTurn<T>(
  round: number,
  ours: (round: number) => Promise<T>,
  peer: (round: number) => Promise<T>,
): Promise<Halves<T>> {
  if (round % 2 === 0) {
    const first = await ours(round);
    return { ours: first, peer: await peer(round) };
  }
  const first = await peer(round);
  return { ours: await ours(round), peer: first };
}
