import { invalid, type Reader } from "./reader.ts";

/**
 * Returns the key of an ingress rule's peers: `from`, or `_from`, its name in client-node's typed objects. An
 * overlooked key would mean everyone.
 *
 * @throws DrawbridgeError ERR_OBJECT where the rule has both
 */
export function sourcesKey(rule: Reader): "from" | "_from" {
  const isRenamed = rule.get("_from") !== undefined;
  if (isRenamed && rule.get("from") !== undefined) {
    throw invalid(rule.path("_from"), "both from and _from", "one of them");
  }
  return isRenamed ? "_from" : "from";
}
