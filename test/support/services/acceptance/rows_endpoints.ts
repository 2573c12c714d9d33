import { ALL, type Row } from "./row.ts";

/** The endpoint of n1 and the one of n2 that most of these Services have, as seen from a pod and from n1 and C. */
const BOTH_SEE_SENDER = { "redis-1": "sender", "np-1": "sender" } as const;
const BOTH_SEE_N1 = { "redis-1": "n1 bridge", "np-1": "n1" } as const;

/** Case 6.1: internalTrafficPolicy Local. */
const INTERNAL: readonly Row[] = [
  {
    id: "6.1a",
    behaviours: "ITP-01",
    says: "with internalTrafficPolicy Local the cluster IP leads only to the endpoints of the client's or entry node",
    probes: [
      { from: ["P1"], to: "our-internal:6379", protocols: ALL, times: 4, reaches: { "redis-1": "sender" } },
      { from: ["n1", "C"], to: "our-internal:6379", protocols: ALL, times: 4, reaches: { "redis-1": "n1 bridge" } },
      { from: ["P2"], to: "our-internal:6379", protocols: ALL, times: 4, reaches: { "np-1": "sender" } },
    ],
  },
  {
    id: "6.1b",
    behaviours: "ITP-02",
    says: "with internalTrafficPolicy Local and endpoints only elsewhere the cluster IP drops in silence",
    probes: [
      {
        from: ["P1", "n1", "C"],
        to: "our-internal-far:6379",
        protocols: ALL,
        fails: "no local endpoint",
        spares: ["np-1"],
      },
    ],
  },
  {
    id: "6.1c",
    behaviours: "ITP-03 ITP-04 NODE-06",
    says: "internalTrafficPolicy Local does not affect the node port",
    probes: [
      { from: ["P1"], to: "n1:30101", protocols: ALL, reaches: { "np-1": "sender" } },
      { from: ["n1", "C"], to: "n1:30101", protocols: ALL, reaches: { "np-1": "n1" } },
    ],
  },
  {
    id: "6.1d",
    behaviours: "ITP-01 ITP-03 ETP-02 ETP-07",
    says: "both policies may be Local: each chooses for its own frontends",
    probes: [
      { from: ["P1"], to: "our-both-local:6379", times: 4, reaches: { "redis-1": "sender" } },
      { from: ["C"], to: "n1:30102", times: 4, reaches: { "redis-1": "sender" } },
      { from: ["P1"], to: "n1:30102", times: 24, reaches: BOTH_SEE_SENDER },
    ],
  },
];

/** Case 6.2: endpoints that terminate. */
const TERMINATING: readonly Row[] = [
  {
    id: "6.2a",
    behaviours: "TERM-01",
    says: "with a policy Local the node's terminating endpoint is used when it has no ready one",
    probes: [
      { from: ["P1"], to: "our-draining-local:6379", times: 4, reaches: { "redis-1": "sender" } },
      { from: ["n1", "C"], to: "our-draining-local:6379", times: 4, reaches: { "redis-1": "n1 bridge" } },
      { from: ["C"], to: "n1:30111", times: 4, reaches: { "redis-1": "sender" } },
    ],
  },
  {
    id: "6.2b",
    behaviours: "TERM-01",
    says: "with a policy Local a ready endpoint of the node is used instead of its terminating one",
    probes: [
      { from: ["P1"], to: "our-draining-beside:6379", times: 4, reaches: { "redis-2": "sender" } },
      { from: ["C"], to: "n1:30112", times: 4, reaches: { "redis-2": "sender" } },
    ],
  },
  {
    id: "6.2c",
    behaviours: "TERM-01 ETP-03",
    says: "with externalTrafficPolicy Local an endpoint of the node that no longer serves is not used",
    probes: [{ from: ["C"], to: "n1:30113", fails: "no local endpoint", spares: ["np-1"] }],
  },
  {
    id: "6.2d",
    behaviours: "TERM-03 SVC-10",
    says: "with policy Cluster a terminating endpoint is not used while one is ready anywhere",
    probes: [
      { from: ["P1"], to: "our-draining:6379", times: 8, reaches: { "np-1": "sender" } },
      { from: ["n1", "C"], to: "our-draining:6379", times: 8, reaches: { "np-1": "n1" } },
    ],
  },
  {
    id: "6.2e",
    behaviours: "TERM-03",
    says: "with policy Cluster all terminating endpoints are used when none is ready anywhere",
    probes: [
      { from: ["P1"], to: "our-draining-all:6379", times: 24, reaches: BOTH_SEE_SENDER },
      { from: ["n1", "C"], to: "our-draining-all:6379", times: 24, reaches: BOTH_SEE_N1 },
    ],
  },
  {
    id: "6.2f",
    behaviours: "TERM-03 NE-05",
    says: "a Service whose endpoints no longer serve refuses",
    probes: [{ from: ["P1", "n1", "C"], to: "our-gone-all:6379", protocols: ALL, fails: "refused" }],
  },
];

/** Case 6.3: hints. n1 is in zone a, and n2 in zone b. */
const HINTS: readonly Row[] = [
  {
    id: "6.3a",
    behaviours: "HINT-02 HINT-06",
    says: "an endpoint with zone hints serves the nodes of those zones, wherever it is itself",
    probes: [
      { from: ["P1"], to: "our-zones:6379", times: 4, reaches: { "np-1": "sender" } },
      { from: ["n1", "C"], to: "our-zones:6379", times: 4, reaches: { "np-1": "n1" } },
      { from: ["P2"], to: "our-zones:6379", times: 4, reaches: { "redis-1": "sender" } },
    ],
  },
  {
    id: "6.3b",
    behaviours: "HINT-03",
    says: "all endpoints serve when a ready one has no hint",
    probes: [{ from: ["P1"], to: "our-zones-partly:6379", times: 24, reaches: BOTH_SEE_SENDER }],
  },
  {
    id: "6.3c",
    behaviours: "HINT-04",
    says: "all endpoints serve a node whose zone is in no hint",
    probes: [
      { from: ["P1"], to: "our-zones-elsewhere:6379", times: 24, reaches: BOTH_SEE_SENDER },
      { from: ["P2"], to: "our-zones-elsewhere:6379", times: 4, reaches: { "redis-1": "sender" } },
    ],
  },
  {
    id: "6.3d",
    behaviours: "HINT-03",
    says: "an endpoint without a hint that no longer serves does not count",
    probes: [{ from: ["P1"], to: "our-zones-gone:6379", times: 8, reaches: { "redis-1": "sender" } }],
  },
  {
    id: "6.3e",
    behaviours: "HINT-05",
    says: "hints do not narrow the node's endpoints for externalTrafficPolicy Local",
    probes: [
      { from: ["C"], to: "n1:30121", times: 4, reaches: { "redis-1": "sender" } },
      { from: ["P1"], to: "our-zones-local:6379", times: 4, reaches: { "np-1": "sender" } },
    ],
  },
  {
    id: "6.3f",
    behaviours: "TD-01",
    says: "hints for nodes go before hints for zones",
    probes: [
      { from: ["P1"], to: "our-nodes:6379", times: 4, reaches: { "redis-1": "sender" } },
      { from: ["P2"], to: "our-nodes:6379", times: 4, reaches: { "np-1": "sender" } },
    ],
  },
  {
    id: "6.3g",
    behaviours: "TD-01",
    says: "hints for zones decide on a node that no hint names",
    probes: [{ from: ["P1"], to: "our-nodes-elsewhere:6379", times: 8, reaches: { "np-1": "sender" } }],
  },
  {
    id: "6.3h",
    behaviours: "TD-01",
    says: "trafficDistribution changes nothing by itself",
    probes: [{ from: ["P1"], to: "our-preference:6379", times: 24, reaches: BOTH_SEE_SENDER }],
  },
];

/** Case 6.4: external IPs that no node has, with externalTrafficPolicy Local. */
const EXTERNAL_LOCAL: readonly Row[] = [
  {
    id: "6.4a",
    behaviours: "XIP-06 LB-15 LB-16 ETP-08",
    says: "with externalTrafficPolicy Local an external IP leads outside clients to the node's endpoint, and pods to all",
    probes: [
      { from: ["C"], to: "our-external-local XIP:6379", protocols: ALL, times: 4, reaches: { "redis-1": "sender" } },
      { from: ["P1"], to: "our-external-local XIP:6379", protocols: ALL, times: 8, reaches: BOTH_SEE_SENDER },
      { from: ["n1"], to: "our-external-local XIP:6379", protocols: ALL, times: 8, reaches: BOTH_SEE_N1 },
    ],
  },
  {
    id: "6.4b",
    behaviours: "XIP-06 ETP-03 ETP-06",
    says: "with externalTrafficPolicy Local and endpoints only elsewhere an external IP is silent for clients outside",
    probes: [
      { from: ["C"], to: "our-external-far XIP:6379", protocols: ALL, fails: "no local endpoint", spares: ["np-1"] },
      { from: ["P1"], to: "our-external-far XIP:6379", protocols: ALL, reaches: { "np-1": "sender" } },
      { from: ["n1"], to: "our-external-far XIP:6379", protocols: ALL, reaches: { "np-1": "n1" } },
    ],
  },
  {
    id: "6.4c",
    behaviours: "XIP-06 NE-03 NE-04",
    says: "an external IP of a Service without endpoints refuses, though its externalTrafficPolicy is Local",
    probes: [{ from: ["C", "P1", "n1"], to: "our-external-none XIP:6379", protocols: ALL, fails: "refused" }],
    further: [{ type: "never sent", to: "our-external-none XIP:6379" }],
  },
];

/** Case 6.5: load balancers beyond those of the document. */
const BALANCERS: readonly Row[] = [
  {
    id: "6.5a",
    behaviours: "LB-12",
    says: "a load balancer's address with ipMode Proxy is left to the balancer, whose packets the node port serves",
    probes: [
      { from: ["n1"], to: "our-lb-proxy LB:80", fails: "nobody", spares: ["vote-1"] },
      { from: ["D"], to: "n1:30131", reaches: { "vote-1": "n1" } },
    ],
  },
  {
    id: "6.5b",
    behaviours: "LB-13",
    says: "a load balancer with only a host name has its cluster IP and its node port",
    probes: [
      { from: ["P1"], to: "our-lb-name:80", reaches: { "vote-1": "sender" } },
      { from: ["C"], to: "n1:30132", reaches: { "vote-1": "n1" } },
    ],
  },
  {
    id: "6.5c",
    behaviours: "LB-05 LB-06",
    says: "source ranges judge the sender's address, and not the node's address by which it would leave",
    probes: [{ from: ["C"], to: "our-lb-node-ranges LB:80", fails: "source not allowed", spares: ["vote-1"] }],
  },
  {
    id: "6.5d",
    behaviours: "LB-15 LB-16 ITP-04",
    says: "with both policies Local the balancer's address leads clients outside to the node's endpoint, and pods to all",
    probes: [
      { from: ["C"], to: "our-lb-local LB:6379", times: 4, reaches: { "redis-1": "sender" } },
      { from: ["P1"], to: "our-lb-local LB:6379", times: 24, reaches: BOTH_SEE_SENDER },
      { from: ["n1"], to: "our-lb-local LB:6379", times: 24, reaches: BOTH_SEE_N1 },
      { from: ["P1"], to: "our-lb-local:6379", times: 4, reaches: { "redis-1": "sender" } },
    ],
  },
];

/** Case 6.6: a program on n2 as the endpoint, and a node port at the bridge's address. */
const NODES: readonly Row[] = [
  {
    id: "6.6a",
    behaviours: "SVC-28",
    says: "a program on a node, such as the API server, is the endpoint of all clients, and sees pods as themselves",
    probes: [
      { from: ["P1", "P2"], to: "our-program:443", reaches: { n2: "sender" } },
      { from: ["n1", "C"], to: "our-program:443", reaches: { n2: "n1" } },
      { from: ["n2"], to: "our-program:443", reaches: { n2: "n2" } },
    ],
  },
  {
    id: "6.6b",
    behaviours: "NODE-03",
    says: "the bridge's address serves node ports to the node and its pods",
    probes: [
      { from: ["P1"], to: "n1 bridge:30001", reaches: { "np-1": "sender" } },
      { from: ["n1"], to: "n1 bridge:30001", reaches: { "np-1": "n1" } },
    ],
  },
];

/** Cases 6.1 to 6.6, which document 004 does not have: which endpoints serve whom. */
export const ENDPOINT_ROWS: readonly Row[] = [
  ...INTERNAL,
  ...TERMINATING,
  ...HINTS,
  ...EXTERNAL_LOCAL,
  ...BALANCERS,
  ...NODES,
];
