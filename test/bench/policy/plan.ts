import type { ClusterSize } from "./cluster.ts";

/** How much is measured, of each thing. */
export interface Plan {
  /** The cluster, and the smaller one that tells how costs grow. */
  readonly large: ClusterSize;
  readonly small: ClusterSize;
  /** The cluster kube-router's layout has, which takes thousands of processes for each of its changes. */
  readonly kubeRouter: ClusterSize;
  /** Whether it is built with the large one, too. */
  readonly isLong: boolean;
  /** Changes of one pod, ours alone; of one policy a quarter as many. */
  readonly changes: number;
  /** Pairs of single changes, and of builds from nothing, beside the obvious layout. */
  readonly changePairs: number;
  readonly buildPairs: number;
  /** The same beside kube-router's, each half a full sync. */
  readonly syncPairs: number;
  /** Changes of files with the daemon, at a steady rate. */
  readonly events: number;
  /** Pairs of batches of first packets, and policies on the pod they are for. */
  readonly packetPairs: number;
  readonly policiesOnOnePod: number;
  readonly policiesOnOnePodForKubeRouter: number;
  /** Builds of very many policies. */
  readonly builds: number;
  readonly builtPolicies: number;
  /** Rounds of cutting live connections and letting them through again. */
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

/** A look, no proof. */
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

/** The plan with a cluster of another size. */
export function ofSize(plan: Plan, { pods, policies }: Partial<ClusterSize>): Plan {
  const { large, small } = plan;
  return {
    ...plan,
    large: { pods: pods ?? large.pods, policies: policies ?? large.policies },
    small: { ...small, policies: policies ?? small.policies },
  };
}
