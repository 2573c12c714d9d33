import type { ProxyLabels } from "../model.ts";
import { expectLabelValue } from "../name.ts";
import type { Reader } from "./reader.ts";

/** Reads the labels by which we do not serve a Service or a slice. @throws DrawbridgeError ERR_OBJECT */
export function readProxyLabels(metadata: Reader): ProxyLabels {
  const labels = metadata.object("labels");
  const key = "service.kubernetes.io/service-proxy-name";
  const proxyName = labels.get(key);
  return {
    proxyName: proxyName === undefined ? undefined : expectLabelValue(proxyName, labels.path(key)),
    hasHeadlessLabel: labels.get("service.kubernetes.io/headless") !== undefined,
  };
}
