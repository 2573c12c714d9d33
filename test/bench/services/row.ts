import { type Estimate, estimateRatio, median, type Pair } from "../statistics.ts";

export type Unit = "ms" | "µs" | "MB" | "%" | "Gbit/s" | "kpackets/s";

/** One finding of the benchmark of Services. */
export interface ServicesRow {
  readonly title: string;
  readonly unit: Unit;
  /** Medians, unless the title says otherwise. */
  readonly ours: number;
  /** Absent where nothing is compared, "cut" where the peer was ended at the limit. */
  readonly peer?: number | "cut";
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

/** A goal for a comparison: to be this number of times faster, or a largest or smallest ratio. */
export type ComparedGoal =
  | { readonly timesFaster: number }
  | { readonly ratioAtMost: number }
  | { readonly ratioAtLeast: number };

/** Returns a row of pairs, ours and the peer's. */
export function compared(
  title: string,
  unit: Unit,
  against: string,
  pairs: readonly Pair[],
  goal?: ComparedGoal,
): ServicesRow {
  const estimate = estimateRatio(pairs);
  return {
    title,
    unit,
    against,
    ours: median(pairs.map(({ ours }) => ours)),
    peer: median(pairs.map(({ peer }) => peer)),
    estimate,
    values: pairs,
    ...(goal === undefined ? {} : judged(estimate, goal)),
  };
}

function judged(estimate: Estimate, goal: ComparedGoal): Pick<ServicesRow, "goal" | "isReached"> {
  if ("ratioAtLeast" in goal) return { goal: `≥ ${goal.ratioAtLeast} ×`, isReached: estimate.low >= goal.ratioAtLeast };
  if ("ratioAtMost" in goal) return { goal: `≤ ${goal.ratioAtMost} ×`, isReached: estimate.high <= goal.ratioAtMost };
  return { goal: `≥ ${goal.timesFaster} × faster`, isReached: estimate.high <= 1 / goal.timesFaster };
}

/** Returns a row of values with the largest permitted median. */
export function measured(title: string, unit: Unit, values: readonly number[], most?: number): ServicesRow {
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
export function found(title: string, unit: Unit, value: number, most: number, remark?: string): ServicesRow {
  const goal = { goal: `≤ ${most} ${unit}`, isReached: value <= most };
  return { title, unit, ours: value, values: [value], ...goal, ...(remark === undefined ? {} : { remark }) };
}
