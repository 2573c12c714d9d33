/** Objects of two nodes: on node1 the pod that policies of the tests select, elsewhere the peers that they may name. */
export const SHOP = `
apiVersion: v1
kind: Namespace
metadata: { name: shop, labels: { team: a } }
---
apiVersion: v1
kind: Namespace
metadata: { name: other, labels: { team: b } }
---
apiVersion: v1
kind: Node
metadata: { name: node1, labels: { zone: a } }
status: { addresses: [ { type: InternalIP, address: 10.240.0.1 }, { type: InternalIP, address: "fd00:240::1" } ] }
---
apiVersion: v1
kind: Node
metadata: { name: node2, labels: { zone: b } }
status: { addresses: [ { type: InternalIP, address: 10.240.0.2 } ] }
---
apiVersion: v1
kind: Pod
metadata: { name: web, namespace: shop, labels: { app: web } }
spec:
  nodeName: node1
  containers: [ { name: c, ports: [ { name: http, containerPort: 8080 } ] } ]
status: { phase: Running, podIPs: [ { ip: 10.244.1.5 }, { ip: "fd00:244:1::5" } ] }
---
apiVersion: v1
kind: Pod
metadata: { name: db, namespace: shop, labels: { app: db } }
spec:
  nodeName: node2
  containers: [ { name: c, ports: [ { name: http, containerPort: 9090 }, { name: sql, containerPort: 5432 } ] } ]
status: { phase: Running, podIPs: [ { ip: 10.244.2.6 }, { ip: "fd00:244:2::6" } ] }
---
apiVersion: v1
kind: Pod
metadata: { name: client, namespace: other, labels: { app: client } }
spec:
  nodeName: node2
  containers: [ { name: c, ports: [ { name: http, containerPort: 80, protocol: TCP }, { name: dns, containerPort: 53, protocol: UDP } ] } ]
status: { phase: Running, podIPs: [ { ip: 10.244.2.7 } ] }
`;

/**
 * Returns a NetworkPolicy of the namespace "shop" for the pod "web", from the fields of its spec in YAML flow or block
 * style.
 */
export function webPolicy(spec: string, name = "policy", annotations = "{}"): string {
  return `---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: { name: ${name}, namespace: shop, annotations: ${annotations} }
spec:
  podSelector: { matchLabels: { app: web } }
  ${spec.trim().replaceAll("\n", "\n  ")}
`;
}

/** Returns a ClusterNetworkPolicy for all pods. */
export function clusterPolicy(spec: string, name = "cluster"): string {
  return `---
apiVersion: policy.networking.k8s.io/v1alpha2
kind: ClusterNetworkPolicy
metadata: { name: ${name} }
spec:
  subject: { namespaces: {} }
  ${spec.trim().replaceAll("\n", "\n  ")}
`;
}

/** Policies that compile to every kind of rule and set. */
export const EVERYTHING =
  webPolicy(`
policyTypes: [Ingress, Egress]
ingress:
  - from:
      - podSelector: { matchLabels: { app: db } }
      - namespaceSelector: { matchLabels: { team: b } }
      - ipBlock: { cidr: 10.0.0.0/8, except: [10.1.0.0/16] }
      - ipBlock: { cidr: "fd00::/8", except: ["fd00:1::/32"] }
    ports:
      - { port: 8080 }
      - { port: 8081, protocol: SCTP }
      - { port: http }
      - { protocol: UDP, port: 1000, endPort: 2000 }
      - { protocol: TCP, port: 1000, endPort: 2000 }
      - { protocol: TCP, port: 3000, endPort: 4000 }
  - from: [ { ipBlock: { cidr: 0.0.0.0/0 } }, { ipBlock: { cidr: "::/0" } } ]
    ports: [ { port: http }, { port: 80 } ]
  - from: [ { podSelector: {} }, { ipBlock: { cidr: 192.0.2.0/24 } }, { ipBlock: { cidr: 198.51.100.0/24 } } ]
  - ports: [ { port: 53, protocol: UDP }, { port: 53 }, { port: dns, protocol: UDP }, { port: 60000, endPort: 65535 } ]
egress:
  - to: [ { podSelector: { matchLabels: { app: db } } }, { ipBlock: { cidr: 0.0.0.0/0, except: [10.0.0.0/8] } } ]
    ports: [ { port: sql }, { port: 443 }, { protocol: SCTP } ]
  - ports: [ { port: http } ]
`) +
  clusterPolicy(
    `
tier: Admin
priority: 0
egress:
  - { action: Pass, to: [ { nodes: { matchLabels: { zone: a } } } ] }
  - { action: Deny, to: [ { networks: [10.240.0.0/24, 192.0.2.4/32, "::/0"] } ], protocols: [ { udp: { destinationPort: { range: { start: 7, end: 9 } } } } ] }
  - { action: Accept, to: [ { namespaces: {} } ], protocols: [ { destinationNamedPort: dns } ] }
ingress:
  - { action: Deny, from: [ { namespaces: { matchLabels: { team: c } } } ] }
`,
    "admin",
  ) +
  clusterPolicy(
    `
tier: Baseline
priority: 0
egress: [ { action: Deny, to: [ { nodes: {} } ] } ]
`,
    "baseline",
  ) +
  `---
apiVersion: v1
kind: Pod
metadata: { name: quiet, namespace: other }
spec: { nodeName: node1, containers: [ { name: c } ] }
status: { phase: Running, podIPs: [ { ip: 10.244.1.8 } ] }
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: { name: tried, namespace: other, annotations: { drawbridge.dev/shadow: "true" } }
spec: { podSelector: {}, policyTypes: [Egress], egress: [ { ports: [ { port: 80 } ] } ] }
`;
