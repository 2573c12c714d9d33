import { formatAddress, FAMILIES } from "../../../kernel/ip/address.ts";
import { type Pair, pairOf } from "../services/traffic_lab.ts";
import type { KubernetesObject } from "./services.ts";

/** The cluster IPs at which pods reach the API. */
export const API_IPS = pairOf("10.96.0.1", "fd00:96::1");
/** The port on which the API's server listens. */
export const API_PORT = 6443;

/**
 * Returns the Service that a cluster has for its API, with slices as its servers write them, which belong to no pod.
 */
export function apiService(server: Pair): readonly KubernetesObject[] {
  const metadata = { namespace: "default", name: "kubernetes" };
  const slices = FAMILIES.map((family) => ({
    apiVersion: "discovery.k8s.io/v1",
    kind: "EndpointSlice",
    metadata: {
      namespace: "default",
      name: family === 4 ? "kubernetes" : "kubernetes-ipv6",
      labels: { "kubernetes.io/service-name": "kubernetes" },
    },
    addressType: `IPv${family}`,
    ports: [{ name: "https", protocol: "TCP", port: API_PORT }],
    endpoints: [{ addresses: [formatAddress(server[family])], conditions: { ready: true } }],
  }));
  const spec = {
    clusterIP: formatAddress(API_IPS[4]),
    clusterIPs: FAMILIES.map((family) => formatAddress(API_IPS[family])),
    ipFamilies: ["IPv4", "IPv6"],
    ports: [{ name: "https", protocol: "TCP", port: 443, targetPort: API_PORT }],
  };
  return [{ apiVersion: "v1", kind: "Service", metadata, spec }, ...slices];
}
