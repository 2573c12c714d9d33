import { ALL, type Row } from "./row.ts";

const N1_PODS = ["P1", "dns", "redis-1", "redis-2", "ext-1", "ext-2"] as const;
const BOTH_SEE_N1 = { "vote-1": "n1", "vote-2": "n1" } as const;
const BOTH_SEE_SENDER = { "vote-1": "sender", "vote-2": "sender" } as const;
const ALL_SEE_SENDER = { ...BOTH_SEE_SENDER, far: "sender" } as const;

/** Case 5.3: LoadBalancer. */
const BALANCER: readonly Row[] = [
  {
    id: "5.3a",
    behaviours: "LB-03 LB-04 NODE-11",
    says: "a packet to a load balancer's address delivered to n1 reaches the endpoint, which sees n1's address",
    probes: [{ from: ["C"], to: "vote-lb LB:80", reaches: { "vote-1": "n1" } }],
  },
  {
    id: "5.3b",
    behaviours: "LB-03 LB-04",
    says: "a packet to a load balancer's address delivered to n2 reaches the endpoint, which sees the bridge's address",
    probes: [{ from: ["C by n2"], to: "vote-lb LB:80", reaches: { "vote-1": "n2 bridge" } }],
  },
  {
    id: "5.3c",
    behaviours: "LB-04",
    says: "packets of a pod and of the node to a load balancer's address never leave for the balancer",
    probes: [
      { from: ["P1"], to: "vote-lb LB:80", reaches: { "vote-1": "sender" } },
      { from: ["n1"], to: "vote-lb LB:80", reaches: { "vote-1": "n1" } },
    ],
    further: [{ type: "never sent", to: "vote-lb LB:80" }],
  },
  {
    id: "5.3d",
    behaviours: "NODE-01 NODE-07 SVC-21",
    says: "the node port of a LoadBalancer Service leads to its endpoint",
    probes: [{ from: ["C"], to: "n1:31278", reaches: { "vote-1": "n1" } }],
  },
  {
    id: "5.3e",
    behaviours: "SVC-21",
    says: "the cluster IP of a LoadBalancer Service leads to its endpoint",
    probes: [
      { from: ["P1", "P2"], to: "vote-lb:80", reaches: { "vote-1": "sender" } },
      { from: ["n1", "C"], to: "vote-lb:80", reaches: { "vote-1": "n1" } },
      { from: ["n2"], to: "vote-lb:80", reaches: { "vote-1": "n2 bridge" } },
    ],
  },
  {
    id: "5.3f",
    behaviours: "LB-03 SVC-18",
    says: "other ports of a load balancer's address, the node port included, are not translated",
    probes: [
      { from: ["C"], to: "vote-lb LB:31278", fails: "nobody", spares: ["vote-1"] },
      { from: ["C"], to: "vote-lb LB:81", fails: "nobody", spares: ["vote-1"] },
    ],
  },
  {
    id: "5.3g",
    behaviours: "LB-05 LB-06",
    says: "a client outside of the source ranges gets no answer at the load balancer's address",
    probes: [{ from: ["C"], to: "vote-lb-ranges LB:80", fails: "source not allowed", spares: ["vote-1"] }],
  },
  {
    id: "5.3h",
    behaviours: "LB-06",
    says: "source ranges do not restrict the node port",
    probes: [{ from: ["C"], to: "n1:31279", reaches: { "vote-1": "n1" } }],
  },
  {
    id: "5.3i",
    behaviours: "NODE-07 LB-04",
    says: "a load balancer that sends to the node port reaches the endpoint",
    probes: [{ from: ["D"], to: "n1:31278", reaches: { "vote-1": "n1" } }],
  },
];

/** Case 5.4: LoadBalancer with externalTrafficPolicy Local. */
const LOCAL: readonly Row[] = [
  {
    id: "5.4a",
    behaviours: "ETP-03 ETP-08",
    says: "with externalTrafficPolicy Local the balancer's address gets no answer at n1, which has no endpoint",
    probes: [{ from: ["C"], to: "vote-lb-local LB:80", fails: "no local endpoint", spares: ["vote-1"] }],
    further: [{ type: "never sent", to: "vote-lb-local LB:80" }],
  },
  {
    id: "5.4b",
    behaviours: "ETP-02 LB-16",
    says: "with externalTrafficPolicy Local the balancer's address leads to n2's endpoint, which sees the client",
    probes: [{ from: ["C by n2"], to: "vote-lb-local LB:80", reaches: { "vote-1": "sender" } }],
  },
  {
    id: "5.4c",
    behaviours: "ETP-04 LB-15",
    says: "with externalTrafficPolicy Local the balancer's address leads a pod of n1 to n2's endpoint, which sees the pod",
    probes: [{ from: ["P1"], to: "vote-lb-local LB:80", reaches: { "vote-1": "sender" } }],
  },
  {
    id: "5.4d",
    behaviours: "ETP-06",
    says: "with externalTrafficPolicy Local the balancer's address leads n1 itself to n2's endpoint, which sees n1",
    probes: [{ from: ["n1"], to: "vote-lb-local LB:80", reaches: { "vote-1": "n1" } }],
  },
  {
    id: "5.4e",
    behaviours: "ETP-02 ETP-03 ETP-08",
    says: "with externalTrafficPolicy Local the node port is silent at n1, and at n2 the endpoint sees the client",
    probes: [
      { from: ["C"], to: "n1:30588", fails: "no local endpoint", spares: ["vote-1"] },
      { from: ["C"], to: "n2:30588", reaches: { "vote-1": "sender" } },
    ],
  },
];

/** Case 5.5: LoadBalancer with session affinity. */
const AFFINITY: readonly Row[] = [
  {
    id: "5.5a",
    behaviours: "SA-01 SA-05",
    says: "a client with affinity stays with its endpoint at the balancer's address and at the cluster IP",
    probes: [
      { from: ["C"], to: "vote-lb-sa LB:80", times: 16, sticky: "vote-lb-sa", reaches: BOTH_SEE_N1 },
      {
        from: ["n1", "C", "D"],
        to: "vote-lb-sa LB:80",
        protocols: ALL,
        times: 3,
        sticky: "vote-lb-sa",
        reaches: BOTH_SEE_N1,
      },
      {
        from: N1_PODS,
        to: "vote-lb-sa LB:80",
        protocols: ALL,
        times: 3,
        sticky: "vote-lb-sa",
        reaches: BOTH_SEE_SENDER,
      },
      {
        from: N1_PODS,
        to: "vote-lb-sa:80",
        protocols: ALL,
        times: 3,
        sticky: "vote-lb-sa",
        reaches: BOTH_SEE_SENDER,
      },
      {
        from: ["n1", "C", "D"],
        to: "vote-lb-sa:80",
        protocols: ALL,
        times: 3,
        sticky: "vote-lb-sa",
        reaches: BOTH_SEE_N1,
      },
    ],
  },
  {
    id: "5.5b",
    behaviours: "SA-05",
    says: "a client with affinity has the same endpoint at the node port as at the balancer's address",
    probes: [
      {
        from: N1_PODS,
        to: "n1:30875",
        protocols: ALL,
        times: 3,
        sticky: "vote-lb-sa",
        reaches: BOTH_SEE_SENDER,
      },
      {
        from: ["n1", "C", "D"],
        to: "n1:30875",
        protocols: ALL,
        times: 3,
        sticky: "vote-lb-sa",
        reaches: BOTH_SEE_N1,
      },
    ],
  },
];

/** Case 5.6: LoadBalancer with externalTrafficPolicy Local and session affinity. */
const LOCAL_AFFINITY: readonly Row[] = [
  {
    id: "5.6a",
    behaviours: "ETP-03 ETP-08",
    says: "with policy Local and affinity the balancer's address gets no answer at n1, which has no endpoint",
    probes: [
      {
        from: ["C"],
        to: "vote-lb-local-sa LB:80",
        protocols: ALL,
        fails: "no local endpoint",
        spares: ["vote-1", "vote-2", "far"],
      },
    ],
  },
  {
    id: "5.6b",
    behaviours: "SA-07 ETP-02 LB-16",
    says: "with policy Local and affinity a client at n2 stays with one of n2's endpoints, which sees the client",
    probes: [
      {
        from: ["C by n2"],
        to: "vote-lb-local-sa LB:80",
        protocols: ALL,
        times: 6,
        sticky: "vote-lb-local-sa",
        reaches: BOTH_SEE_SENDER,
      },
    ],
  },
  {
    id: "5.6c",
    behaviours: "ETP-04 LB-15 SA-05",
    says: "with policy Local and affinity a pod of n1 stays with one of all endpoints, which sees the pod",
    probes: [
      {
        from: N1_PODS,
        to: "vote-lb-local-sa LB:80",
        protocols: ALL,
        times: 6,
        sticky: "vote-lb-local-sa",
        reaches: ALL_SEE_SENDER,
      },
    ],
  },
  {
    id: "5.6d",
    behaviours: "ETP-02 ETP-03 ETP-04 SA-07",
    says: "with policy Local the sticky node port is silent at n1, uses n2's endpoints at n2 and all for n1's pods",
    probes: [
      {
        from: ["C"],
        to: "n1:30423",
        protocols: ALL,
        fails: "no local endpoint",
        spares: ["vote-1", "vote-2", "far"],
      },
      {
        from: ["C", "D"],
        to: "n2:30423",
        protocols: ALL,
        times: 6,
        sticky: "vote-lb-local-sa",
        reaches: BOTH_SEE_SENDER,
      },
      {
        from: N1_PODS,
        to: "n1:30423",
        protocols: ALL,
        times: 3,
        sticky: "vote-lb-local-sa",
        reaches: ALL_SEE_SENDER,
      },
    ],
  },
];

/** Case 5.7: LoadBalancer with externalTrafficPolicy Local and without endpoints. */
const NONE: readonly Row[] = [
  {
    id: "5.7a",
    behaviours: "NE-03 NE-04",
    says: "the node port of a Service without endpoints refuses, though its externalTrafficPolicy is Local",
    probes: [{ from: ["C"], to: "n1:32095", fails: "refused" }],
  },
  {
    id: "5.7b",
    behaviours: "NE-01 NE-03",
    says: "the cluster IP of a LoadBalancer Service without endpoints refuses",
    probes: [{ from: ["P1", "P2", "n1", "n2", "C"], to: "vote-lb-none:80", fails: "refused" }],
  },
  {
    id: "5.7c",
    behaviours: "NE-03 NE-06",
    says: "the balancer's address of a Service without endpoints refuses, and no packet to it leaves a node",
    probes: [{ from: ["C", "P1", "n1"], to: "vote-lb-none LB:80", fails: "refused" }],
    further: [{ type: "never sent", to: "vote-lb-none LB:80" }],
  },
  {
    id: "5.7d",
    behaviours: "LB-05 LB-06",
    says: "a client outside of the source ranges of a Service without endpoints gets no answer instead of a refusal",
    probes: [{ from: ["C"], to: "vote-lb-none-ranges LB:80", fails: "source not allowed" }],
  },
];

/** Cases 5.3 to 5.7: n1 has no endpoint. */
export const LOAD_BALANCER_ROWS: readonly Row[] = [...BALANCER, ...LOCAL, ...AFFINITY, ...LOCAL_AFFINITY, ...NONE];
