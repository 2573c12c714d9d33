import type { Kind } from "../../objects/model.ts";
import type { RawObject } from "./storage.ts";

/** Returns an object of a kind as on an API server; another `variant` of it differs in something Drawbridge reads. */
export function sample(kind: Kind, index: number, variant = 0): RawObject {
  const name = `${kind.toLowerCase()}-${index}`;
  const metadata = { name, namespace: "default", labels: { variant: `${variant}` } };
  const { namespace: _, ...unspaced } = metadata;
  switch (kind) {
    case "Namespace":
      return { apiVersion: "v1", kind, metadata: unspaced, spec: { finalizers: ["kubernetes"] } };
    case "Node":
      return {
        apiVersion: "v1",
        kind,
        metadata: unspaced,
        spec: { podCIDRs: [`10.244.${index % 256}.0/24`] },
        status: { addresses: [{ type: "InternalIP", address: `192.0.2.${index % 256}` }] },
      };
    case "Pod":
      return {
        apiVersion: "v1",
        kind,
        metadata: { ...metadata, managedFields: [{ manager: "kubelet", fieldsV1: { "f:status": {} } }] },
        spec: {
          nodeName: `node-${index % 3}`,
          containers: [{ name: "c", ports: [{ name: "http", containerPort: 80 }] }],
        },
        status: { phase: "Running", podIPs: [{ ip: `10.244.${index >> 8}.${index & 255}` }] },
      };
    case "Service":
      return {
        apiVersion: "v1",
        kind,
        metadata,
        spec: { clusterIPs: [`10.96.${index >> 8}.${index & 255}`], ports: [{ port: 80 + variant, protocol: "TCP" }] },
      };
    case "EndpointSlice":
      return {
        apiVersion: "discovery.k8s.io/v1",
        kind,
        metadata: {
          ...metadata,
          // Every third variant belongs to a headless Service, which Drawbridge does not request.
          labels: {
            "kubernetes.io/service-name": `service-${index}`,
            ...(variant % 3 === 2 ? { "service.kubernetes.io/headless": "" } : {}),
          },
        },
        addressType: "IPv4",
        ports: [{ name: "", port: 8080, protocol: "TCP" }],
        endpoints: [{ addresses: [`10.244.0.${variant % 256}`], conditions: { ready: true }, nodeName: "node-1" }],
      };
    case "NetworkPolicy":
      return {
        apiVersion: "networking.k8s.io/v1",
        kind,
        metadata,
        spec: { podSelector: { matchLabels: { variant: `${variant}` } }, policyTypes: ["Ingress"] },
      };
    case "ClusterNetworkPolicy":
      return {
        apiVersion: "policy.networking.k8s.io/v1beta1",
        kind,
        metadata: unspaced,
        spec: { tier: "Admin", priority: variant % 1000, subject: { namespaces: {} } },
      };
    case "ServiceCIDR":
      return {
        apiVersion: "networking.k8s.io/v1",
        kind,
        metadata: unspaced,
        spec: { cidrs: [`10.${96 + index}.${variant % 256}.0/24`] },
      };
  }
}
