import type { RulesetStatus } from "../../dataplane/ruleset.ts";

/** kube-proxy's healthTimeout is twice its syncPeriod too (cmd/kube-proxy/app/server.go). */
const PERIODS = 2;

/**
 * Whether the node does what its objects say: the kernel has all that is wanted, or has lacked some of it for less than
 * two periods of verification. So a single refused batch turns no traffic away, and a kernel that refuses for good does.
 *
 * @param now milliseconds, of the clock that `pendingSince` is of
 * @param syncPeriod milliseconds
 */
export function isProxyHealthy(
  { isSynced, pendingSince }: Pick<RulesetStatus, "isSynced" | "pendingSince">,
  now: number,
  syncPeriod: number,
): boolean {
  return isSynced || (pendingSince !== undefined && now - pendingSince < PERIODS * syncPeriod);
}
