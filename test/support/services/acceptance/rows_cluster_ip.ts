import { ALL, type Row } from "./row.ts";

const SENDER = { "redis-1": "sender", "redis-2": "sender" } as const;
const N1_BRIDGE = { "redis-1": "n1 bridge", "redis-2": "n1 bridge" } as const;
const N2 = { "redis-1": "n2", "redis-2": "n2" } as const;
const EXTERNAL_N1_BRIDGE = { "ext-1": "n1 bridge", "ext-2": "n1 bridge" } as const;
const EXTERNAL_N2 = { "ext-1": "n2", "ext-2": "n2" } as const;
const EXTERNAL_SENDER = { "ext-1": "sender", "ext-2": "sender" } as const;

/** Rows of case 2.2: kube-dns. */
const DNS: readonly Row[] = [
  {
    id: "2.2a",
    behaviours: "SVC-14 SVC-15 SVC-17",
    says: "the node reaches its DNS server, which sees the bridge's address",
    probes: [{ from: ["n1"], to: "kube-dns:53", protocols: ["udp"], reaches: { dns: "n1 bridge" } }],
  },
  {
    id: "2.2b",
    behaviours: "SVC-13",
    says: "a pod reaches the DNS server, which sees the pod's address",
    probes: [{ from: ["P1"], to: "kube-dns:53", protocols: ["udp"], reaches: { dns: "sender" } }],
  },
];

/** Case 3.2: ClusterIP. */
const CLUSTER_IP: readonly Row[] = [
  {
    id: "3.2a",
    behaviours: "SVC-04 SVC-09 SVC-13",
    says: "a pod on the endpoints' node reaches each endpoint of a cluster IP, which sees the pod's address",
    probes: [{ from: ["P1"], to: "redis:6379", protocols: ALL, times: 8, reaches: SENDER }],
  },
  {
    id: "3.2b",
    behaviours: "SVC-13",
    says: "a pod on another node reaches each endpoint of a cluster IP, which sees the pod's address",
    probes: [{ from: ["P2"], to: "redis:6379", protocols: ALL, times: 8, reaches: SENDER }],
  },
  {
    id: "3.2c",
    behaviours: "SVC-14 SVC-15 SVC-17",
    says: "the endpoints' node reaches each endpoint of a cluster IP, which sees the bridge's address",
    probes: [{ from: ["n1"], to: "redis:6379", protocols: ALL, times: 8, reaches: N1_BRIDGE }],
  },
  {
    id: "3.2d",
    behaviours: "SVC-14 SVC-15 SVC-17",
    says: "another node reaches each endpoint of a cluster IP, which sees that node's address",
    probes: [{ from: ["n2"], to: "redis:6379", protocols: ALL, times: 8, reaches: N2 }],
  },
  {
    id: "3.2e",
    behaviours: "SVC-14",
    says: "a client outside whose packets arrive at n1 reaches each endpoint of a cluster IP, which sees n1's bridge",
    probes: [{ from: ["C"], to: "redis:6379", protocols: ALL, times: 8, reaches: N1_BRIDGE }],
  },
  {
    id: "3.2f",
    behaviours: "POD-12",
    says: "an endpoint that reaches itself through its Service sees the bridge's address",
    probes: [
      {
        from: ["redis-1"],
        to: "redis:6379",
        protocols: ALL,
        times: 8,
        reaches: { "redis-1": "n1 bridge", "redis-2": "sender" },
      },
    ],
  },
  {
    id: "3.2g",
    behaviours: "SVC-13",
    says: "an endpoint that reaches the other endpoint through their Service is seen with its own address",
    probes: [
      {
        from: ["redis-1"],
        to: "redis:6379",
        protocols: ALL,
        times: 8,
        reaches: { "redis-2": "sender" },
        othersIgnored: true,
      },
    ],
  },
  {
    id: "3.2h",
    behaviours: "POD-22",
    says: "the answer of an endpoint on the client's own bridge comes from the Service's address",
    probes: [{ from: ["ext-1"], to: "redis:6379", protocols: ALL, times: 8, reaches: SENDER }],
  },
  {
    id: "3.2i",
    behaviours: "SVC-08",
    says: "another port of a cluster IP is refused, and no packet to the address leaves a node",
    probes: [{ from: ["P1"], to: "redis:6380", protocols: ALL, fails: "refused" }],
    further: [
      { type: "never sent", to: "redis:6379" },
      { type: "never sent", to: "redis:6380" },
    ],
  },
];

const PODS_ASKING = ["P1", "P2", "dns", "ext-1", "ext-2", "np-1", "vote-1"] as const;

/** Case 3.3: ClusterIP with session affinity. */
const AFFINITY: readonly Row[] = [
  {
    id: "3.3a",
    behaviours: "SA-01",
    says: "a client of a Service with affinity stays with the endpoint of its first connection",
    probes: [{ from: ["P1"], to: "redis-sa:6379", times: 16, sticky: "redis-sa", reaches: SENDER }],
  },
  {
    id: "3.3b",
    behaviours: "SA-01 SA-06",
    says: "the clients of a Service with affinity are assigned endpoints independently of each other",
    probes: [
      { from: PODS_ASKING, to: "redis-sa:6379", protocols: ALL, times: 4, sticky: "redis-sa", reaches: SENDER },
      { from: ["C", "D"], to: "redis-sa:6379", protocols: ALL, times: 4, sticky: "redis-sa", reaches: N1_BRIDGE },
    ],
    further: [{ type: "clients differ" }],
  },
  {
    id: "3.3e",
    behaviours: "SA-01 SVC-13 SVC-14 POD-12",
    says: "affinity decides before the random choice, and endpoints see the same addresses as without affinity",
    probes: [
      { from: ["P1", "P2"], to: "redis-sa:6379", protocols: ALL, sticky: "redis-sa", reaches: SENDER, times: 4 },
      { from: ["n1", "C"], to: "redis-sa:6379", protocols: ALL, sticky: "redis-sa", reaches: N1_BRIDGE, times: 4 },
      { from: ["n2"], to: "redis-sa:6379", protocols: ALL, sticky: "redis-sa", reaches: N2, times: 4 },
      {
        from: ["redis-1"],
        to: "redis-sa:6379",
        protocols: ALL,
        sticky: "redis-sa",
        reaches: { "redis-1": "n1 bridge", "redis-2": "sender" },
        times: 4,
      },
    ],
  },
];

/** Case 3.4: an external IP that is the address of n1. */
const EXTERNAL_IP: readonly Row[] = [
  {
    id: "3.4a",
    behaviours: "XIP-01 XIP-02",
    says: "an external IP that is n1's address leads a client outside to the endpoints by way of n1",
    probes: [{ from: ["C"], to: "n1:6379", times: 24, reaches: EXTERNAL_N1_BRIDGE }],
  },
  {
    id: "3.4b",
    behaviours: "XIP-02 XIP-03",
    says: "an external IP that is the node's own address leads the node to the endpoints",
    probes: [{ from: ["n1"], to: "n1:6379", times: 24, reaches: EXTERNAL_N1_BRIDGE }],
  },
  {
    id: "3.4c",
    behaviours: "XIP-02 XIP-03",
    says: "an external IP that is the node's own address leads a pod of the node to the endpoints",
    probes: [{ from: ["P1"], to: "n1:6379", times: 24, reaches: EXTERNAL_SENDER }],
  },
  {
    id: "3.4d",
    behaviours: "XIP-02 XIP-03 NODE-11",
    says: "n2 serves a client outside at an external IP that is n1's address",
    probes: [{ from: ["C by n2"], to: "n1:6379", times: 24, reaches: EXTERNAL_N2 }],
  },
  {
    id: "3.4e",
    behaviours: "XIP-02 XIP-03",
    says: "n2 sends itself and its pods to the endpoints of an external IP that is n1's address",
    probes: [
      { from: ["P2"], to: "n1:6379", times: 24, reaches: EXTERNAL_SENDER },
      { from: ["n2"], to: "n1:6379", times: 24, reaches: EXTERNAL_N2 },
    ],
  },
  {
    id: "3.4f",
    behaviours: "XIP-01 SVC-13 SVC-14",
    says: "a Service with an external IP is also reached at its cluster IP",
    probes: [
      { from: ["P1", "P2"], to: "redis-externalip:6379", times: 24, reaches: EXTERNAL_SENDER },
      { from: ["n1", "C"], to: "redis-externalip:6379", times: 24, reaches: EXTERNAL_N1_BRIDGE },
      { from: ["n2"], to: "redis-externalip:6379", times: 24, reaches: EXTERNAL_N2 },
    ],
  },
  {
    id: "3.4g",
    behaviours: "XIP-05",
    says: "no program listens at the port of an external IP",
    further: [
      { type: "nothing listens", on: "n1", port: 6379 },
      { type: "nothing listens", on: "n2", port: 6379 },
    ],
  },
];

/** Case 3.5: ClusterIP without endpoints. */
const NO_ENDPOINTS: readonly Row[] = [
  {
    id: "3.5a",
    behaviours: "NE-01 NE-06 NE-07",
    says: "the node's connection to a Service without endpoints is refused",
    probes: [{ from: ["n1"], to: "redis-none:6379", fails: "refused" }],
  },
  {
    id: "3.5b",
    behaviours: "NE-01 NE-06",
    says: "a pod's connection to a Service without endpoints is refused",
    probes: [{ from: ["P1"], to: "redis-none:6379", fails: "refused" }],
  },
  {
    id: "3.5c",
    behaviours: "NE-01 NE-06",
    says: "an outside client's connection to a Service without endpoints is refused",
    probes: [{ from: ["C"], to: "redis-none:6379", fails: "refused" }],
  },
  {
    id: "3.5d",
    behaviours: "NE-01 SVC-04",
    says: "UDP and SCTP to a Service without endpoints are refused like TCP",
    probes: [{ from: ["n1", "P1", "C"], to: "redis-none:6379", protocols: ["udp", "sctp"], fails: "refused" }],
  },
  {
    id: "3.5e",
    behaviours: "NE-01 SVC-08",
    says: "no packet to a Service without endpoints leaves a node, and no map has its address",
    probes: [{ from: ["P2", "n2"], to: "redis-none:6379", protocols: ALL, fails: "refused" }],
    further: [
      { type: "never sent", to: "redis-none:6379" },
      { type: "no translation", service: "redis-none" },
    ],
  },
];

/** Case 3.6: headless. */
const HEADLESS: readonly Row[] = [
  {
    id: "3.6a",
    behaviours: "HL-01",
    says: "no table contains a headless Service",
    further: [{ type: "not in the tables", service: "redis-headless", endpoint: "redis-3" }],
  },
  {
    id: "3.6b",
    behaviours: "",
    says: "the name of a headless Service resolves to the addresses of its pods",
    onTop: "CoreDNS",
  },
  {
    id: "3.6c",
    behaviours: "HL-01",
    says: "a pod reaches an endpoint of a headless Service by the endpoint's address, untranslated",
    probes: [{ from: ["P1"], to: "redis-3:6379", protocols: ALL, reaches: { "redis-3": "sender" } }],
  },
];

/** Cases 2.2 and 3.2 to 3.6: both endpoints are on n1. */
export const CLUSTER_IP_ROWS: readonly Row[] = [
  ...DNS,
  ...CLUSTER_IP,
  ...AFFINITY,
  ...EXTERNAL_IP,
  ...NO_ENDPOINTS,
  ...HEADLESS,
];
