import type { ProxyLabels } from "../model.ts";
import { expectLabelValue } from "../name.ts";
import type { Reader } from "../reader.ts";

/** The labels by which a Service or a slice is none of ours. @throws DrawbridgeError ERR_OBJECT */
export function readProxyLabels(metadata: Reader): ProxyLabels {
  const labels = metadata.object("labels");
  const key = "service.kubernetes.io/service-proxy-name";
  const proxyName = labels.get(key);
  return {
    proxyName: proxyName === undefined ? undefined : expectLabelValue(proxyName, labels.path(key)),
    hasHeadlessLabel: labels.get("service.kubernetes.io/headless") !== undefined,
  };
}
