import type { Row } from "./row.ts";
import { ALL } from "./row.ts";

const N1_PODS = ["P1", "dns", "redis-1", "redis-2", "ext-1", "ext-2"] as const;
const BOTH_SEE_N1 = { "vote-1": "n1", "vote-2": "n1" } as const;
const BOTH_SEE_SENDER = { "vote-1": "sender", "vote-2": "sender" } as const;
const ALL_SEE_SENDER = { ...BOTH_SEE_SENDER, far: "sender" } as const;

/** Case 5.3: LoadBalancer. */
const BALANCER: readonly Row[] = [
  {
    id: "5.3a",
    behaviours: "LB-03 LB-04 NODE-11",
    says: "delivered to n1: the endpoint sees n1",
    probes: [{ from: ["C"], to: "vote-lb LB:80", reaches: { "vote-1": "n1" } }],
    further: [{ type: "tracked", on: "n1", from: "C", to: "vote-lb LB:80", answerFrom: ["vote-1:80"], answerTo: "n1" }],
  },
  {
    id: "5.3b",
    behaviours: "LB-03 LB-04",
    says: "delivered to n2: the endpoint sees the bridge",
    probes: [{ from: ["C by n2"], to: "vote-lb LB:80", reaches: { "vote-1": "n2 bridge" } }],
  },
  {
    id: "5.3c",
    behaviours: "LB-04",
    says: "a pod and the node never come to the balancer",
    probes: [{ from: ["P1", "n1"], to: "vote-lb LB:80", reaches: { "vote-1": "n1" } }],
    further: [{ type: "never sent", to: "vote-lb LB:80" }],
  },
  {
    id: "5.3d",
    behaviours: "NODE-01 NODE-07 SVC-21",
    says: "by the node port",
    probes: [{ from: ["C"], to: "n1:31278", reaches: { "vote-1": "n1" } }],
  },
  {
    id: "5.3e",
    behaviours: "SVC-21",
    says: "by the Service's own address",
    probes: [
      { from: ["P1", "P2"], to: "vote-lb:80", reaches: { "vote-1": "sender" } },
      { from: ["n1", "C"], to: "vote-lb:80", reaches: { "vote-1": "n1" } },
      { from: ["n2"], to: "vote-lb:80", reaches: { "vote-1": "n2 bridge" } },
    ],
  },
  {
    id: "5.3f",
    behaviours: "LB-03 SVC-18",
    says: "other ports of the balancer's address are left alone, the node port too",
    probes: [
      { from: ["C"], to: "vote-lb LB:31278", fails: "nobody", spares: ["vote-1"] },
      { from: ["C"], to: "vote-lb LB:81", fails: "nobody", spares: ["vote-1"] },
    ],
    further: [
      { type: "untranslated", on: "n1", from: "C", to: "vote-lb LB:31278" },
      { type: "untranslated", on: "n1", from: "C", to: "vote-lb LB:81" },
    ],
  },
  {
    id: "5.3g",
    behaviours: "LB-05 LB-06",
    says: "a client outside of the source ranges: silence",
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
    says: "a balancer that sends to the node port is served by it",
    probes: [{ from: ["D"], to: "n1:31278", reaches: { "vote-1": "n1" } }],
    further: [{ type: "tracked", on: "n1", from: "D", to: "n1:31278", answerFrom: ["vote-1:80"], answerTo: "n1" }],
  },
];

/** Case 5.4: LoadBalancer with externalTrafficPolicy Local. */
const LOCAL: readonly Row[] = [
  {
    id: "5.4a",
    behaviours: "ETP-03 ETP-08",
    says: "delivered to n1, which has no endpoint: silence",
    probes: [{ from: ["C"], to: "vote-lb-local LB:80", fails: "no local endpoint", spares: ["vote-1"] }],
    further: [{ type: "never sent", to: "vote-lb-local LB:80" }],
  },
  {
    id: "5.4b",
    behaviours: "ETP-02 LB-16",
    says: "delivered to n2, whose endpoint sees the client",
    probes: [{ from: ["C by n2"], to: "vote-lb-local LB:80", reaches: { "vote-1": "sender" } }],
  },
  {
    id: "5.4c",
    behaviours: "ETP-04 LB-15",
    says: "a pod of n1 meets the endpoint, which sees it",
    probes: [{ from: ["P1"], to: "vote-lb-local LB:80", reaches: { "vote-1": "sender" } }],
  },
  {
    id: "5.4d",
    behaviours: "ETP-06",
    says: "n1 itself meets the endpoint, which sees n1, as decided",
    probes: [{ from: ["n1"], to: "vote-lb-local LB:80", reaches: { "vote-1": "n1" } }],
  },
  {
    id: "5.4e",
    behaviours: "ETP-02 ETP-03 ETP-08",
    says: "the node port: silence at n1, and at n2 the endpoint sees the client",
    probes: [
      { from: ["C"], to: "n1:30588", fails: "no local endpoint", spares: ["vote-1"] },
      { from: ["C"], to: "n2:30588", reaches: { "vote-1": "sender" } },
    ],
  },
  {
    id: "5.4f",
    behaviours: "LB-14",
    says: "the health check: 503 of n1, 200 of n2",
    further: [
      { type: "health", of: "n1", port: 31_588, status: 503 },
      { type: "health", of: "n2", port: 31_588, status: 200 },
    ],
  },
];

/** Case 5.5: LoadBalancer with session affinity. */
const AFFINITY: readonly Row[] = [
  {
    id: "5.5a",
    behaviours: "SA-01 SA-05",
    says: "a client stays with its endpoint by the balancer's address and the Service's own",
    probes: [
      { from: ["C"], to: "vote-lb-sa LB:80", times: 55, sticky: "vote-lb-sa", reaches: BOTH_SEE_N1 },
      {
        from: [...N1_PODS, "n1", "C", "D"],
        to: "vote-lb-sa LB:80",
        protocols: ALL,
        times: 3,
        sticky: "vote-lb-sa",
        reaches: BOTH_SEE_N1,
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
    says: "the node port shares a client's endpoint with them",
    probes: [
      {
        from: [...N1_PODS, "n1", "C", "D"],
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
    says: "delivered to n1, which has no endpoint: silence",
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
    says: "delivered to n2 a client stays with one of n2's endpoints, which sees it",
    probes: [
      {
        from: ["C by n2"],
        to: "vote-lb-local-sa LB:80",
        protocols: ALL,
        times: 12,
        sticky: "vote-lb-local-sa",
        reaches: BOTH_SEE_SENDER,
      },
    ],
  },
  {
    id: "5.6c",
    behaviours: "ETP-04 LB-15 SA-05",
    says: "a pod of n1 stays with one of all endpoints, which sees it",
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
    says: "the node port: silence at n1, n2's endpoints at n2, all for a pod of n1",
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
    says: "the node port refuses, though the policy is Local",
    probes: [{ from: ["C"], to: "n1:32095", fails: "refused" }],
  },
  {
    id: "5.7b",
    behaviours: "NE-01 NE-03",
    says: "the Service's own address refuses",
    probes: [{ from: ["P1", "P2", "n1", "n2", "C"], to: "vote-lb-none:80", fails: "refused" }],
  },
  {
    id: "5.7c",
    behaviours: "NE-03 NE-06",
    says: "the balancer's address refuses everyone, and nothing goes out again",
    probes: [{ from: ["C", "P1", "n1"], to: "vote-lb-none LB:80", fails: "refused" }],
    further: [{ type: "never sent", to: "vote-lb-none LB:80" }],
  },
  {
    id: "5.7d",
    behaviours: "LB-05 LB-06",
    says: "a client outside of the source ranges meets silence, not a refusal",
    probes: [{ from: ["C"], to: "vote-lb-none-ranges LB:80", fails: "source not allowed" }],
  },
  {
    id: "5.7e",
    behaviours: "LB-14",
    says: "the health check: 503 of both nodes",
    further: [
      { type: "health", of: "n1", port: 32_195, status: 503 },
      { type: "health", of: "n2", port: 32_195, status: 503 },
    ],
  },
];

/** Cases 5.3 to 5.7: n1 has no endpoint. */
export const LOAD_BALANCER_ROWS: readonly Row[] = [...BALANCER, ...LOCAL, ...AFFINITY, ...LOCAL_AFFINITY, ...NONE];
