/** Returns the objects of a cluster of one node, with a Service of three protocols whose endpoint is the pod b. */
export function serviceObjects(): string {
  const protocols = ["TCP", "UDP", "SCTP"];
  const ports = protocols.map((protocol) => ({ name: protocol.toLowerCase(), protocol, port: 80, targetPort: 8080 }));
  const service = "web";
  return [
    { apiVersion: "v1", kind: "Namespace", metadata: { name: "default" } },
    {
      apiVersion: "v1",
      kind: "Service",
      metadata: { name: service, namespace: "default" },
      spec: {
        clusterIP: "10.96.0.10",
        clusterIPs: ["10.96.0.10"],
        ipFamilies: ["IPv4"],
        selector: { app: "b" },
        ports,
      },
    },
    {
      apiVersion: "discovery.k8s.io/v1",
      kind: "EndpointSlice",
      metadata: { name: "web-1", namespace: "default", labels: { "kubernetes.io/service-name": service } },
      addressType: "IPv4",
      endpoints: [{ addresses: ["10.244.1.3"], nodeName: "node1", conditions: { ready: true } }],
      ports: protocols.map((protocol) => ({ name: protocol.toLowerCase(), protocol, port: 8080 })),
    },
    ...["a", "b", "c"].map((name) => podObject(name, "node1")),
  ]
    .map((object) => JSON.stringify(object))
    .join("\n---\n");
}

export function podObject(name: string, nodeName: string): object {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, namespace: "default", uid: `uid-${name}`, labels: { app: name } },
    spec: { nodeName },
    status: { phase: "Running" },
  };
}

/** Returns a NetworkPolicy by which only the pod a reaches the pod b. */
export function onlyFromA(): string {
  return JSON.stringify({
    apiVersion: "networking.k8s.io/v1",
    kind: "NetworkPolicy",
    metadata: { name: "only-a", namespace: "default" },
    spec: {
      podSelector: { matchLabels: { app: "b" } },
      policyTypes: ["Ingress"],
      ingress: [{ from: [{ podSelector: { matchLabels: { app: "a" } } }] }],
    },
  });
}
