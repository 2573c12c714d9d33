/** The size of the cluster that a daemon watches, and the duration of the measurement. */
export interface Plan {
  readonly pods: number;
  readonly services: number;
  readonly endpoints: number;
  readonly policies: number;
  /** First syncs, each by a daemon of its own. */
  readonly starts: number;
  /** The seconds of steady changes after the last start. */
  readonly seconds: number;
  readonly changesPerSecond: number;
  /** A node whose pods do nothing. */
  readonly idle: { readonly pods: number; readonly seconds: number };
}

export const DEFAULT_PLAN: Plan = {
  pods: 10_000,
  services: 10_000,
  endpoints: 3,
  policies: 1000,
  starts: 3,
  seconds: 60,
  changesPerSecond: 100,
  idle: { pods: 250, seconds: 120 },
};

/** A quick plan, whose results prove nothing. */
export const QUICK_PLAN: Plan = {
  ...DEFAULT_PLAN,
  starts: 1,
  seconds: 10,
  idle: { pods: 250, seconds: 20 },
};
