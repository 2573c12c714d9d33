/** The size of the cluster, and the number of measurements. */
export interface Plan {
  readonly services: number;
  readonly endpoints: number;
  /** Rounds over the two programs that serve Services, each with a first sync and all changes. */
  readonly rounds: number;
  /** Changes of each kind that are made one at a time. */
  readonly singleChanges: number;
  readonly changesPerSecond: number;
  /** The duration of changes at that rate. */
  readonly seconds: number;
  /** Connections of one measurement, and rounds over the programs that keep the tables. */
  readonly connections: number;
  readonly connectionRounds: number;
}

export const DEFAULT_PLAN: Plan = {
  services: 10_000,
  endpoints: 3,
  rounds: 6,
  singleChanges: 5,
  changesPerSecond: 100,
  seconds: 15,
  connections: 3000,
  connectionRounds: 8,
};

/** A plan to check that the benchmark works: too few rounds for an interval, and a small cluster. */
export const QUICK_PLAN: Plan = {
  ...DEFAULT_PLAN,
  services: 1000,
  rounds: 2,
  singleChanges: 2,
  seconds: 5,
  connections: 500,
  connectionRounds: 2,
};
