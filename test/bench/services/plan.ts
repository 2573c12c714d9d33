/** The numbers of measurements. */
export interface Plan {
  /** Cold loads of 1,000 Services by each layout. */
  readonly smallLoads: number;
  /** Cold loads of 10,000 Services, by the old layout and by the new. */
  readonly chainLoads: number;
  readonly mapLoads: number;
  /** Changes of one Service, by our layout only and in pairs. */
  readonly changes: number;
  readonly changePairs: number;
  /** Pairs of batches of first packets. */
  readonly packetPairs: number;
  /** Changes at a steady rate. */
  readonly events: number;
}

export const DEFAULT_PLAN: Plan = {
  smallLoads: 10,
  chainLoads: 3,
  mapLoads: 6,
  changes: 200,
  changePairs: 20,
  packetPairs: 60,
  events: 1000,
};

/** A quick plan, whose results prove nothing. */
export const QUICK_PLAN: Plan = {
  smallLoads: 3,
  chainLoads: 1,
  mapLoads: 1,
  changes: 40,
  changePairs: 5,
  packetPairs: 15,
  events: 200,
};
