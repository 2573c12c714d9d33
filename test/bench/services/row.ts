import { type Estimate, estimateRatio, median, type Pair } from "../statistics.ts";

export type Unit = "ms" | "µs" | "MB" | "%" | "elements" | "Gbit/s" | "kpackets/s";

/** One finding of the benchmark of Services. */
export interface ServicesRow {
  readonly title: string;
  readonly unit: Unit;
  /** Medians, or what the title says. */
  readonly ours: number;
  /** Absent where nothing is compared, "cut" where the other one was ended at the limit. */
  readonly peer?: number | "cut";
  readonly against?: string;
  /** Of ours / peer; where nothing is compared, of ours. */
  readonly estimate?: Estimate;
  readonly goal?: string;
  /** Whether the whole interval is on the goal's good side; absent without a goal. */
  readonly isReached?: boolean;
  readonly remark?: string;
  /** All that was measured. */
  readonly values: readonly number[] | readonly Pair[];
}

/** A goal for a comparison: so many times faster, or at most or at least such a ratio. */
export type ComparedGoal =
  | { readonly timesFaster: number }
  | { readonly ratioAtMost: number }
  | { readonly ratioAtLeast: number };

/** A row of pairs, ours and another's. */
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

/** A row of values with the most that their median may be. */
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

/** A row of one number with the most that it may be. */
export function found(title: string, unit: Unit, value: number, most: number, remark?: string): ServicesRow {
  const goal = { goal: `≤ ${most} ${unit}`, isReached: value <= most };
  return { title, unit, ours: value, values: [value], ...goal, ...(remark === undefined ? {} : { remark }) };
}
