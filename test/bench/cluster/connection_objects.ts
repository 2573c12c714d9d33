import { FAMILIES } from "../../../kernel/ip/address.ts";

/** The port of every server and Service in this benchmark. */
export const CONNECTION_PORT = 8080;
export const POD_CIDRS = ["10.244.1.0/24", "fd00:244:1::/64"] as const;
export const CLUSTER_CIDR = "10.244.0.0/16,fd00:244::/32";
/** The addresses of a pod on another node. */
export const REMOTE = { 4: "10.244.2.5", 6: "fd00:244:2::5" } as const;
/** The addresses of the server pod on this node, and of the client. host-local gives addresses in this order. */
export const SERVER = { 4: "10.244.1.2", 6: "fd00:244:1::2" } as const;
export const CLIENT = { 4: "10.244.1.3", 6: "fd00:244:1::3" } as const;
/** The cluster IPs of the Services with one endpoint on this node or another. */
export const CLUSTER_IP = {
  server: { 4: "10.96.0.10", 6: "fd00:96::10" },
  remote: { 4: "10.96.0.11", 6: "fd00:96::11" },
} as const;
/** The nodes, beginning with the one that is measured. */
export const NODES = [
  { name: "node1", addresses: ["192.0.2.10", "2001:db8:0:1::2"], podCIDRs: POD_CIDRS },
  { name: "node2", addresses: ["192.0.2.9", "2001:db8:0:1::1"], podCIDRs: ["10.244.2.0/24", "fd00:244:2::/64"] },
] as const;

const NAMESPACE = "default";
const PROTOCOLS = ["TCP", "UDP"] as const;

/** Returns the objects that kube-proxy and policyd both read, by resource. */
export function connectionObjects(): Readonly<
  Record<"services" | "endpointslices" | "nodes" | "servicecidrs", readonly object[]>
> {
  const services = (["server", "remote"] as const).flatMap((where) => FAMILIES.map((family) => ({ where, family })));
  return {
    services: services.map(({ where, family }) => ({
      apiVersion: "v1",
      kind: "Service",
      metadata: { name: `${where}-${family}`, namespace: NAMESPACE },
      spec: {
        type: "ClusterIP",
        clusterIP: CLUSTER_IP[where][family],
        clusterIPs: [CLUSTER_IP[where][family]],
        ipFamilies: [`IPv${family}`],
        ports: PROTOCOLS.map((protocol) => ({ name: protocol.toLowerCase(), protocol, port: CONNECTION_PORT })),
      },
    })),
    endpointslices: services.map(({ where, family }) => ({
      apiVersion: "discovery.k8s.io/v1",
      kind: "EndpointSlice",
      metadata: {
        name: `${where}-${family}`,
        namespace: NAMESPACE,
        labels: { "kubernetes.io/service-name": `${where}-${family}` },
      },
      addressType: `IPv${family}`,
      ports: PROTOCOLS.map((protocol) => ({ name: protocol.toLowerCase(), protocol, port: CONNECTION_PORT })),
      endpoints: [
        {
          addresses: [(where === "server" ? SERVER : REMOTE)[family]],
          nodeName: where === "server" ? "node1" : "node2",
          conditions: { ready: true, serving: true, terminating: false },
        },
      ],
    })),
    nodes: NODES.map(({ name, addresses, podCIDRs }) => ({
      apiVersion: "v1",
      kind: "Node",
      metadata: { name },
      spec: { podCIDR: podCIDRs[0], podCIDRs },
      status: { addresses: addresses.map((address) => ({ type: "InternalIP", address })) },
    })),
    servicecidrs: [],
  };
}

/** Returns the objects that policies select by: the namespace and the two pods of the node. */
export function podObjects(): readonly object[] {
  return [
    { apiVersion: "v1", kind: "Namespace", metadata: { name: NAMESPACE, labels: { team: "bench" } } },
    ...Object.entries({ server: SERVER, client: CLIENT }).map(([name, addresses]) => ({
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name, namespace: NAMESPACE, uid: `uid-${name}`, labels: { app: name } },
      spec: { nodeName: NODES[0].name },
      status: { phase: "Running", podIPs: FAMILIES.map((family) => ({ ip: addresses[family] })) },
    })),
  ];
}
