/** A NetworkPolicy in a namespace, named "policy" unless said otherwise. */
export function networkPolicy(namespace: string, spec: object, name = "policy"): object {
  return { apiVersion: "networking.k8s.io/v1", kind: "NetworkPolicy", metadata: { name, namespace }, spec };
}

/** A ClusterNetworkPolicy. */
export function clusterNetworkPolicy(name: string, spec: object): object {
  return { apiVersion: "policy.networking.k8s.io/v1beta1", kind: "ClusterNetworkPolicy", metadata: { name }, spec };
}

/** A selector of these labels. */
export function labelled(matchLabels: Readonly<Record<string, string>>): object {
  return { matchLabels };
}

/** A selector of labels with one of these values, or with none of them. */
export function oneOf(key: string, values: readonly string[], operator: "In" | "NotIn" = "In"): object {
  return { matchExpressions: [{ key, operator, values }] };
}
