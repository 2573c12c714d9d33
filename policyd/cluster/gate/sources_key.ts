import type { Reader } from "../reader.ts";
import { invalid } from "../reader.ts";

/**
 * Where a rule for ingress has its peers: `from`, which client-node calls `_from` in its typed objects. Read as absent
 * it would be everyone.
 *
 * @throws DrawbridgeError ERR_OBJECT where both are there
 */
export function sourcesKey(rule: Reader): "from" | "_from" {
  const isRenamed = rule.get("_from") !== undefined;
  if (isRenamed && rule.get("from") !== undefined) {
    throw invalid(rule.path("_from"), "both from and _from", "one of them");
  }
  return isRenamed ? "_from" : "from";
}
