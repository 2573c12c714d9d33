/** How large the cluster is that a daemon follows, and for how long it is measured. */
export interface Plan {
  readonly pods: number;
  readonly services: number;
  readonly endpoints: number;
  readonly policies: number;
  /** First syncs, each by a daemon of its own. */
  readonly starts: number;
  /** Of steady changes behind the last of them. */
  readonly seconds: number;
  readonly changesPerSecond: number;
}

export const DEFAULT_PLAN: Plan = {
  pods: 10_000,
  services: 10_000,
  endpoints: 3,
  policies: 1000,
  starts: 3,
  seconds: 60,
  changesPerSecond: 100,
};

/** A look, no proof. */
export const QUICK_PLAN: Plan = { ...DEFAULT_PLAN, starts: 1, seconds: 10 };
