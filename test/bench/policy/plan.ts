import type { ClusterSize } from "./cluster.ts";

/** The numbers of measurements. */
export interface Plan {
  /** The cluster, and the smaller one that shows how costs grow. */
  readonly large: ClusterSize;
  readonly small: ClusterSize;
  /** Changes of one pod. */
  readonly changes: number;
  /** Builds of very many policies. */
  readonly builds: number;
  readonly builtPolicies: number;
  /** Rounds of cutting live connections and restoring them. */
  readonly cutRounds: number;
}

const LARGE: ClusterSize = { pods: 10_000, policies: 1000 };

export const DEFAULT_PLAN: Plan = {
  large: LARGE,
  small: { pods: 1000, policies: 1000 },
  changes: 300,
  builds: 3,
  builtPolicies: 10_000,
  cutRounds: 5,
};

/** A quick plan, whose results prove nothing. */
export const QUICK_PLAN: Plan = {
  ...DEFAULT_PLAN,
  changes: 40,
  builds: 1,
  cutRounds: 1,
};
