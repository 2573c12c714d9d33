import type { KubernetesObject } from "../services/manifest.ts";

/** Returns a NetworkPolicy in a namespace, named "policy" by default. */
export function networkPolicy(namespace: string, spec: object, name = "policy"): KubernetesObject {
  return { apiVersion: "networking.k8s.io/v1", kind: "NetworkPolicy", metadata: { name, namespace }, spec };
}

/** Returns a ClusterNetworkPolicy. */
export function clusterNetworkPolicy(name: string, spec: object): object {
  return { apiVersion: "policy.networking.k8s.io/v1beta1", kind: "ClusterNetworkPolicy", metadata: { name }, spec };
}

/** Returns a selector of these labels. */
export function labelled(matchLabels: Readonly<Record<string, string>>): object {
  return { matchLabels };
}

/** Returns a selector of labels with one of these values, or with none of them. */
export function oneOf(key: string, values: readonly string[], operator: "In" | "NotIn" = "In"): object {
  return { matchExpressions: [{ key, operator, values }] };
}
