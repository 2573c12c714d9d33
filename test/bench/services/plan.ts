/** The numbers of measurements. */
export interface Plan {
  /** Cold loads of 1,000 and of 10,000 Services. */
  readonly smallLoads: number;
  readonly loads: number;
  /** Changes of one Service. */
  readonly changes: number;
}

export const DEFAULT_PLAN: Plan = {
  smallLoads: 10,
  loads: 6,
  changes: 200,
};

/** A quick plan, whose results prove nothing. */
export const QUICK_PLAN: Plan = {
  smallLoads: 3,
  loads: 1,
  changes: 40,
};
