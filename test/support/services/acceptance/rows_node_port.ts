import { ALL, type Row } from "./row.ts";

const N1_PODS = ["P1", "dns", "redis-1", "redis-2", "ext-1", "ext-2"] as const;
const BOTH_SEE_N1 = { "np-1": "n1", "np-2": "n1" } as const;
const BOTH_SEE_SENDER = { "np-1": "sender", "np-2": "sender" } as const;
const ALL_SEE_SENDER = { ...BOTH_SEE_SENDER, far: "sender" } as const;

/** Case 4.2: NodePort. */
const NODE_PORT: readonly Row[] = [
  {
    id: "4.2a",
    behaviours: "NODE-01 NODE-07 NODE-11",
    says: "the node port at n1, which has no endpoint, leads to n2 with n1's address, and n2 translates nothing",
    probes: [{ from: ["C"], to: "n1:30001", reaches: { "np-1": "n1" } }],
  },
  {
    id: "4.2b",
    behaviours: "NODE-01 NODE-07",
    says: "the node port at n2 leads to n2's endpoint, which sees the bridge's address",
    probes: [{ from: ["C"], to: "n2:30001", reaches: { "np-1": "n2 bridge" } }],
  },
  {
    id: "4.2c",
    behaviours: "NODE-01 NODE-07 SVC-17",
    says: "n1 reaches the endpoint by the node port at its own address",
    probes: [{ from: ["n1"], to: "n1:30001", reaches: { "np-1": "n1" } }],
  },
  {
    id: "4.2d",
    behaviours: "NODE-03 NODE-07",
    says: "n1 reaches the endpoint by the node port at n2's address, which n2 translates and n1 does not",
    probes: [{ from: ["n1"], to: "n2:30001", reaches: { "np-1": "n2 bridge" } }],
  },
  {
    id: "4.2e",
    behaviours: "NODE-01 NODE-07 NODE-12",
    says: "a pod of n1 reaches the endpoint by the node port at either node's address, by way of n1, and is seen as itself",
    probes: [
      { from: ["P1"], to: "n1:30001", reaches: { "np-1": "sender" } },
      { from: ["P1"], to: "n2:30001", reaches: { "np-1": "sender" } },
    ],
  },
  {
    id: "4.2f",
    behaviours: "NODE-02 SVC-21",
    says: "a NodePort Service is also reached at its cluster IP",
    probes: [
      { from: ["P1", "P2"], to: "redis-nodeport:6379", reaches: { "np-1": "sender" } },
      { from: ["n1", "C"], to: "redis-nodeport:6379", reaches: { "np-1": "n1" } },
      { from: ["n2"], to: "redis-nodeport:6379", reaches: { "np-1": "n2 bridge" } },
    ],
  },
  {
    id: "4.2g",
    behaviours: "NODE-08",
    says: "nothing listens on a node port, and a program that listened there before on n2 gets no connection",
    probes: [
      { from: ["C", "n2"], to: "n2:30001", reaches: { "np-1": "n2 bridge" } },
      { from: ["P2", "np-2"], to: "n2:30001", reaches: { "np-1": "sender" } },
    ],
    further: [{ type: "nothing listens", on: "n1", port: 30_001 }],
  },
  {
    id: "4.2h",
    behaviours: "NODE-07 POD-12",
    says: "an endpoint reaches itself by the node port at its node's address, and sees the bridge's address",
    probes: [{ from: ["np-1"], to: "n2:30001", reaches: { "np-1": "n2 bridge" } }],
  },
];

/** Case 4.3: NodePort with externalTrafficPolicy Local. */
const LOCAL: readonly Row[] = [
  {
    id: "4.3a",
    behaviours: "ETP-03",
    says: "with externalTrafficPolicy Local the node port gets no answer at n1, which has no endpoint",
    probes: [{ from: ["C"], to: "n1:30002", fails: "no local endpoint", spares: ["np-1"] }],
  },
  {
    id: "4.3b",
    behaviours: "ETP-02",
    says: "with externalTrafficPolicy Local the node port leads to n2's endpoint, which sees the client's address",
    probes: [{ from: ["C"], to: "n2:30002", reaches: { "np-1": "sender" } }],
  },
  {
    id: "4.3c",
    behaviours: "ETP-04",
    says: "with externalTrafficPolicy Local a pod of n1 reaches n2's endpoint by n1's node port and is seen as itself",
    probes: [{ from: ["P1"], to: "n1:30002", reaches: { "np-1": "sender" } }],
  },
  {
    id: "4.3d",
    behaviours: "POD-12",
    says: "with externalTrafficPolicy Local an endpoint reaches itself by its node's address",
    probes: [{ from: ["np-1"], to: "n2:30002", reaches: { "np-1": "n2 bridge" } }],
  },
  {
    id: "4.3e",
    behaviours: "NODE-05",
    says: "loopback addresses serve no node ports",
    probes: [{ from: ["n2"], to: "localhost:30002", fails: "nobody" }],
  },
  {
    id: "4.3f",
    behaviours: "ETP-06",
    says: "with externalTrafficPolicy Local n1 reaches n2's endpoint by its own address, and n1's address is seen",
    probes: [{ from: ["n1"], to: "n1:30002", reaches: { "np-1": "n1" } }],
  },
  {
    id: "4.3g",
    behaviours: "ETP-07",
    says: "externalTrafficPolicy Local does not affect the cluster IP",
    probes: [
      { from: ["P1"], to: "redis-nodeport-local:6379", reaches: { "np-1": "sender" } },
      { from: ["n1", "C"], to: "redis-nodeport-local:6379", reaches: { "np-1": "n1" } },
    ],
  },
  {
    id: "4.3h",
    behaviours: "ETP-02",
    says: "with externalTrafficPolicy Local a pod of n1 reaches n2's endpoint by n2's node port and is seen as itself",
    probes: [{ from: ["P1"], to: "n2:30002", reaches: { "np-1": "sender" } }],
  },
];

/** Case 4.4: NodePort without endpoints. */
const NONE: readonly Row[] = [
  {
    id: "4.4a",
    behaviours: "NE-02 NE-06",
    says: "an outside client's connection to the node port of a Service without endpoints is refused",
    probes: [{ from: ["C"], to: "n1:30003", fails: "refused" }],
  },
  {
    id: "4.4b",
    behaviours: "NE-02 NE-06",
    says: "the node's connection to the node port of a Service without endpoints is refused",
    probes: [{ from: ["n1"], to: "n1:30003", fails: "refused" }],
  },
  {
    id: "4.4c",
    behaviours: "NE-01",
    says: "the cluster IP of a NodePort Service without endpoints refuses",
    probes: [{ from: ["P1", "P2", "n1", "n2", "C"], to: "redis-nodeport-none:6379", fails: "refused" }],
  },
  {
    id: "4.4d",
    behaviours: "NE-02 SVC-18",
    says: "a packet to the number of a node port at another address than the node's passes n1 untranslated",
    probes: [{ from: ["C"], to: "P1:30003", reaches: { P1: "sender" } }],
  },
];

/** Case 4.5: NodePort with session affinity. */
const AFFINITY: readonly Row[] = [
  {
    id: "4.5a",
    behaviours: "SA-01 SA-06",
    says: "a client with affinity stays with its endpoint at the node port, and the endpoint sees n1's address",
    probes: [{ from: ["C"], to: "n1:30004", times: 16, sticky: "redis-nodeport-sa", reaches: BOTH_SEE_N1 }],
  },
  {
    id: "4.5b",
    behaviours: "SA-05",
    says: "the cluster IP and the node port of a Service with affinity share a client's endpoint",
    probes: [
      {
        from: N1_PODS,
        to: "redis-nodeport-sa:6379",
        protocols: ALL,
        times: 3,
        sticky: "redis-nodeport-sa",
        reaches: BOTH_SEE_SENDER,
      },
      {
        from: ["n1", "C", "D"],
        to: "redis-nodeport-sa:6379",
        protocols: ALL,
        times: 3,
        sticky: "redis-nodeport-sa",
        reaches: BOTH_SEE_N1,
      },
      {
        from: N1_PODS,
        to: "n1:30004",
        protocols: ALL,
        times: 3,
        sticky: "redis-nodeport-sa",
        reaches: BOTH_SEE_SENDER,
      },
      {
        from: ["n1", "C", "D"],
        to: "n1:30004",
        protocols: ALL,
        times: 3,
        sticky: "redis-nodeport-sa",
        reaches: BOTH_SEE_N1,
      },
    ],
  },
  {
    id: "4.5c",
    behaviours: "SA-06",
    says: "clients that endpoints see with n1's address have affinities of their own",
    // Few clients may all get one of two endpoints by chance: a second Service makes that rare enough.
    probes: [
      {
        from: ["n1", "n2", "C", "D"],
        to: "n1:30004",
        protocols: ALL,
        sticky: "redis-nodeport-sa",
        reaches: BOTH_SEE_N1,
      },
      {
        from: ["n1", "C", "D"],
        to: "vote-lb-sa LB:80",
        protocols: ALL,
        sticky: "vote-lb-sa",
        reaches: { "vote-1": "n1", "vote-2": "n1" },
      },
    ],
    further: [{ type: "clients differ" }],
  },
];

/** Case 4.6: NodePort with externalTrafficPolicy Local and session affinity. */
const LOCAL_AFFINITY: readonly Row[] = [
  {
    id: "4.6a",
    behaviours: "ETP-03",
    says: "with policy Local and affinity the node port gets no answer at n1, which has no endpoint",
    probes: [
      {
        from: ["C"],
        to: "n1:30005",
        protocols: ALL,
        fails: "no local endpoint",
        spares: ["np-1", "np-2", "far"],
      },
    ],
  },
  {
    id: "4.6b",
    behaviours: "SA-07 ETP-02",
    says: "with policy Local and affinity a client of n2's node port stays with one of n2's endpoints, which sees it",
    probes: [
      {
        from: ["C", "D"],
        to: "n2:30005",
        protocols: ALL,
        times: 6,
        sticky: "redis-nodeport-local-sa",
        reaches: BOTH_SEE_SENDER,
      },
    ],
  },
  {
    id: "4.6c",
    behaviours: "ETP-04 SA-05",
    says: "with policy Local and affinity a pod of n1 stays with one of all endpoints at n1's node port, which sees it",
    probes: [
      {
        from: N1_PODS,
        to: "n1:30005",
        protocols: ALL,
        times: 6,
        sticky: "redis-nodeport-local-sa",
        reaches: ALL_SEE_SENDER,
      },
    ],
  },
  {
    id: "4.6d",
    behaviours: "ETP-07 SA-01",
    says: "with policy Local and affinity a client of the cluster IP stays with one of all endpoints",
    probes: [
      {
        from: ["P1", "ext-1", "P2"],
        to: "redis-nodeport-local-sa:6379",
        protocols: ALL,
        times: 6,
        sticky: "redis-nodeport-local-sa",
        reaches: ALL_SEE_SENDER,
      },
      {
        from: ["n1", "C"],
        to: "redis-nodeport-local-sa:6379",
        protocols: ALL,
        times: 6,
        sticky: "redis-nodeport-local-sa",
        reaches: { ...BOTH_SEE_N1, far: "n1" },
      },
    ],
  },
];

/** Cases 4.2 to 4.6: n1 has no endpoint. */
export const NODE_PORT_ROWS: readonly Row[] = [...NODE_PORT, ...LOCAL, ...NONE, ...AFFINITY, ...LOCAL_AFFINITY];
