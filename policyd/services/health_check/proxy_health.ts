import type { RulesetStatus } from "../../ruleset/ruleset.ts";

/** kube-proxy's healthTimeout is twice its syncPeriod too (cmd/kube-proxy/app/server.go). */
const PERIODS = 2;

/**
 * Returns whether the node does what its objects say: the kernel has the desired state, or has differed from it for
 * less than two resync periods. So a single refused batch turns no traffic away, but a kernel that keeps refusing does.
 *
 * @param now milliseconds, of the same clock as `pendingSince`
 * @param syncPeriod milliseconds
 */
export function isProxyHealthy(
  { isReconciled, pendingSince }: Pick<RulesetStatus, "isReconciled" | "pendingSince">,
  now: number,
  syncPeriod: number,
): boolean {
  return isReconciled || (pendingSince !== undefined && now - pendingSince < PERIODS * syncPeriod);
}
