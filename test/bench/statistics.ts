/** Two measurements made one right after the other, in milliseconds or in the scenario's own unit. */
export interface Pair {
  readonly ours: number;
  readonly peer: number;
}

/** A ratio with the interval that contains it. */
export interface Estimate {
  /** The median of the paired ratios. */
  readonly ratio: number;
  /** The 95 % interval. */
  readonly low: number;
  readonly high: number;
}

const RESAMPLES = 10_000;
const SEED = 0x0db;

/**
 * Returns the middle of the values; the mean of the two middle ones when their number is even.
 *
 * @throws RangeError without values
 */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  const upper = sorted[middle];
  const lower = sorted.length % 2 === 0 ? sorted[middle - 1] : upper;
  if (upper === undefined || lower === undefined) throw new RangeError("the median of no values");
  return (lower + upper) / 2;
}

/**
 * Returns the value below which a share of the values lies, by linear interpolation (Hyndman and Fan's definition 7).
 *
 * @param share 0 to 1
 * @throws RangeError without values
 */
export function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  const position = (sorted.length - 1) * share;
  const below = sorted[Math.floor(position)];
  const above = sorted[Math.ceil(position)];
  if (below === undefined || above === undefined) throw new RangeError("a quantile of no values");
  return below + (above - below) * (position - Math.floor(position));
}

/**
 * Returns the median of ours / peer with its 95 % interval, by the percentile bootstrap: it draws the pairs again and
 * again with replacement, and the middle 95 % of the medians of these draws is the interval.
 *
 * The ratio is taken within a pair, so an influence that slows both halves of a pair cancels out. The draws are seeded:
 * the same pairs give the same interval.
 *
 * @throws RangeError without pairs
 */
export function estimateRatio(pairs: readonly Pair[], resamples = RESAMPLES, seed = SEED): Estimate {
  const ratios = pairs.map(({ ours, peer }) => ours / peer);
  const random = mulberry32(seed);
  const medians = Array.from({ length: resamples }, () =>
    median(ratios.map(() => ratios[Math.floor(random() * ratios.length)] ?? Number.NaN)),
  );
  return { ratio: median(ratios), low: quantile(medians, 0.025), high: quantile(medians, 0.975) };
}

/**
 * Returns a pseudo-random generator of numbers in [0, 1) (mulberry32), which is small, seeded and good enough to draw
 * samples.
 */
export function mulberry32(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
