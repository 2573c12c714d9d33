import type { ClusterSize } from "./cluster.ts";

/** The numbers of measurements. */
export interface Plan {
  /** The cluster, and the smaller one that shows how costs grow. */
  readonly large: ClusterSize;
  readonly small: ClusterSize;
  /** The cluster for kube-router's layout, which takes thousands of processes for each of its changes. */
  readonly kubeRouter: ClusterSize;
  /** Whether kube-router's layout is built with the large cluster as well. */
  readonly isLong: boolean;
  /** Changes of one pod, only in our layout; those of one policy are a quarter as many. */
  readonly changes: number;
  /** Pairs of single changes, and of builds from nothing, beside the obvious layout. */
  readonly changePairs: number;
  readonly buildPairs: number;
  /** Pairs beside kube-router's layout, half of which is a full sync. */
  readonly syncPairs: number;
  /** Changes of files with the daemon, at a steady rate. */
  readonly events: number;
  /** Pairs of batches of first packets, and the numbers of policies on their destination. */
  readonly packetPairs: number;
  readonly policiesOnOnePod: number;
  readonly policiesOnOnePodForKubeRouter: number;
  /** Builds of very many policies. */
  readonly builds: number;
  readonly builtPolicies: number;
  /** Rounds of cutting live connections and restoring them. */
  readonly cutRounds: number;
  /** Pairs of seconds of iperf3, each cut into the stretches of its load. */
  readonly throughputPairs: number;
}

const LARGE: ClusterSize = { pods: 10_000, policies: 1000 };

export const DEFAULT_PLAN: Plan = {
  large: LARGE,
  small: { pods: 1000, policies: 1000 },
  kubeRouter: { pods: 1000, policies: 100 },
  isLong: false,
  changes: 300,
  changePairs: 20,
  buildPairs: 5,
  syncPairs: 3,
  events: 500,
  packetPairs: 60,
  policiesOnOnePod: 1000,
  policiesOnOnePodForKubeRouter: 100,
  builds: 3,
  builtPolicies: 10_000,
  cutRounds: 5,
  throughputPairs: 40,
};

/** A quick plan, whose results prove nothing. */
export const QUICK_PLAN: Plan = {
  ...DEFAULT_PLAN,
  kubeRouter: { pods: 1000, policies: 10 },
  changes: 40,
  changePairs: 5,
  buildPairs: 1,
  syncPairs: 1,
  events: 100,
  packetPairs: 12,
  builds: 1,
  cutRounds: 1,
  throughputPairs: 2,
};

/** Returns the plan with a cluster of another size. */
export function ofSize(plan: Plan, { pods, policies }: Partial<ClusterSize>): Plan {
  const { large, small } = plan;
  return {
    ...plan,
    large: { pods: pods ?? large.pods, policies: policies ?? large.policies },
    small: { ...small, policies: policies ?? small.policies },
  };
}
