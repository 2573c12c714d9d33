/** The number of measurements, for a cluster of any number of Services. */
export interface Plan {
  readonly endpoints: number;
  /** Rounds over the two programs that serve Services, each with a first sync and all changes. */
  readonly rounds: number;
  /** Changes of each kind that are made one at a time. */
  readonly singleChanges: number;
  readonly changesPerSecond: number;
  /** The duration of changes at that rate. */
  readonly seconds: number;
}

/** A plan with the size of its cluster. */
export interface SizedPlan extends Plan {
  readonly services: number;
}

/** The numbers of Services that are compared: most clusters have 50 to 1,000. */
export const SIZES: readonly number[] = [50, 300, 1000, 3000, 10_000];

export const DEFAULT_PLAN: Plan = {
  endpoints: 3,
  rounds: 6,
  singleChanges: 5,
  changesPerSecond: 100,
  seconds: 15,
};

/** A plan to check that the benchmark works: too few rounds for an interval. */
export const QUICK_PLAN: Plan = {
  ...DEFAULT_PLAN,
  rounds: 2,
  singleChanges: 2,
  seconds: 5,
};
