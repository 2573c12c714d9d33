import { pairs, together } from "../lab/pairs.ts";
import { podManifest } from "../lab/place.ts";
import { ALL_TRAFFIC, inBoth } from "../lab/question.ts";
import { labelled, networkPolicy, oneOf } from "../manifest.ts";
import { A, B, egressOfA, fromA, ingressOfA, ingressOfX, inNamespace, isIn, named, never, toA } from "./words.ts";
import { blocks, type Row } from "./row.ts";

const FROM_B = { from: [{ podSelector: B }] };
const TO_B = { to: [{ podSelector: B }] };
const NOT_IN_X = { namespaceSelector: oneOf("ns", ["x"], "NotIn") };
const NEW_PEERS = [{ namespaceSelector: labelled({ new: "yes" }) }, { podSelector: labelled({ new: "yes" }) }];
/** The ends outside of x/a's node. */
const AWAY = ["outside", "stranger", "node2"];
const EVERY_END = ["outside", "stranger", "node1", "node2"];
const SOME = ["80/TCP", "81/UDP", "80/SCTP", "ICMP"] as const;

/** Which pods a policy selects, in which directions, and which peers its selectors mean. */
export const SELECTION_ROWS: readonly Row[] = [
  {
    title: "POL-01: without a policy every pod, node and host reaches every pod",
    steps: [
      {
        policies: [],
        ...together(pairs(never, ...ALL_TRAFFIC, "ICMP"), {
          allowed: EVERY_END.flatMap((end) => [...inBoth(end, "x/a", ...SOME), ...inBoth("x/a", end, ...SOME)]),
        }),
      },
    ],
  },
  {
    title: "POL-02 POL-12 POL-14: a pod is isolated in the directions of policyTypes, and in no other",
    steps: [
      { policies: [ingressOfA()], ...pairs((_, to) => toA(to), ...ALL_TRAFFIC) },
      { policies: [egressOfA()], ...pairs((from) => fromA(from), ...ALL_TRAFFIC) },
      {
        policies: [networkPolicy("x", { podSelector: A, policyTypes: ["Ingress", "Egress"] })],
        ...pairs((from, to) => fromA(from) || toA(to), ...ALL_TRAFFIC),
      },
      // Rules of a direction that is not among the types have no effect.
      {
        policies: [networkPolicy("x", { podSelector: A, policyTypes: ["Egress"], ingress: [], egress: [{}] })],
        ...pairs(never),
      },
    ],
  },
  {
    title: "POL-02 POL-05: an isolated pod is closed to other nodes and hosts outside, as it is to pods",
    steps: [
      {
        policies: [ingressOfA()],
        denied: AWAY.flatMap((end) => inBoth(end, "x/a", ...SOME)),
        allowed: AWAY.flatMap((end) => inBoth("x/a", end, "80/TCP", "ICMP")),
      },
      {
        policies: [egressOfA()],
        denied: AWAY.flatMap((end) => inBoth("x/a", end, ...SOME)),
        allowed: AWAY.flatMap((end) => inBoth(end, "x/a", "80/TCP", "ICMP")),
      },
    ],
  },
  {
    title:
      "POL-03 POL-10: a podSelector selects only pods of the policy's own namespace; an empty one selects all of them",
    steps: [
      { policies: [ingressOfA()], ...pairs((_, to) => to === "x/a") },
      { policies: [networkPolicy("x", {})], ...pairs((_, to) => isIn("x", to)) },
      {
        policies: [networkPolicy("x", { podSelector: oneOf("pod", ["a"], "NotIn") })],
        ...pairs((_, to) => to === "x/b" || to === "x/c"),
      },
      {
        policies: [
          networkPolicy("x", { podSelector: { matchExpressions: [{ key: "pod", operator: "DoesNotExist" }] } }),
        ],
        ...pairs(never),
      },
      {
        policies: [networkPolicy("x", { podSelector: { ...labelled({ pod: "b" }), ...oneOf("pod", ["a", "b"]) } })],
        ...pairs((_, to) => to === "x/b"),
      },
    ],
  },
  {
    // x/b shares a node with x/a, x/c does not.
    title: "POL-05: both ends must allow a flow, on one node and across two",
    steps: [
      {
        policies: [named(egressOfA(TO_B), "out"), named(networkPolicy("x", { podSelector: B, ingress: [] }), "in")],
        ...pairs((from, to) => fromA(from) || to === "x/b"),
      },
      {
        policies: [
          named(egressOfA({ to: [{ podSelector: labelled({ pod: "c" }) }] }), "out"),
          named(ingressOfX({ from: [{ podSelector: A }] }), "in"),
        ],
        ...pairs((from, to) => (fromA(from) && to !== "x/c") || (isIn("x", to) && !fromA(from))),
      },
    ],
  },
  {
    title:
      "POL-11: without policyTypes a pod is always isolated for Ingress, and for Egress if there is an egress rule",
    steps: [
      { policies: [networkPolicy("x", { podSelector: A, egress: [] })], ...pairs((_, to) => toA(to)) },
      {
        policies: [networkPolicy("x", { podSelector: A, egress: [TO_B] })],
        ...pairs((from, to) => toA(to) || (fromA(from) && to !== "x/b")),
      },
    ],
  },
  {
    title: "POL-22: a namespaceSelector selects pods of all namespaces, and no hosts outside",
    steps: [
      {
        policies: [ingressOfA({ from: [{ namespaceSelector: {} }] })],
        ...together(pairs(never), { denied: inBoth("outside", "x/a", "80/TCP") }),
      },
      {
        policies: [egressOfA({ to: [{ namespaceSelector: {} }] })],
        ...together(pairs(never), { denied: inBoth("x/a", "outside", "80/TCP") }),
      },
    ],
  },
  {
    title: "POL-20: a rule without peers allows everyone, also hosts outside",
    steps: [
      {
        policies: [ingressOfA({ ports: [{ port: 80 }] })],
        allowed: ["outside", "y/b", "node2"].flatMap((from) => inBoth(from, "x/a", "80/TCP")),
        denied: [...inBoth("outside", "x/a", "81/TCP", "80/UDP"), ...inBoth("y/b", "x/a", "81/TCP", "80/SCTP")],
      },
    ],
  },
  {
    title: "POL-28: changed labels count at once for subjects, on either node",
    steps: ["x/a", "x/c"].flatMap((key) => {
      const policies = [networkPolicy("x", { podSelector: labelled({ new: "yes" }) })];
      return [
        { policies, ...pairs(never) },
        { policies, labels: { [key]: { new: "yes" } }, ...pairs((_, to) => to === key) },
        { policies, ...pairs(never) },
      ];
    }),
  },
  {
    title:
      "POL-04 POL-13: policies of a pod add up, and a rule {} allows everything in its direction, whatever others allow; without them all is allowed again",
    steps: [
      ...([ingressOfA, egressOfA] as const).flatMap((policyOfA) => {
        const some = policyOfA(policyOfA === ingressOfA ? FROM_B : TO_B);
        const isOfA = (from: string, to: string): boolean => (policyOfA === ingressOfA ? toA(to) : fromA(from));
        const isOfAAndB = (from: string, to: string): boolean => [from, to].every((end) => /^x\/[ab]$/.test(end));
        return [
          { policies: [some], ...pairs((from, to) => isOfA(from, to) && !isOfAAndB(from, to)) },
          {
            policies: [some, named(policyOfA(), "none")],
            ...pairs((from, to) => isOfA(from, to) && !isOfAAndB(from, to)),
          },
          { policies: [some, named(policyOfA({}), "all")], ...pairs(never, ...ALL_TRAFFIC) },
        ];
      }),
      { policies: [], ...pairs(never) },
    ],
  },
  {
    title:
      "POL-21 POL-23: a peer's podSelector is for the policy's namespace; of two selectors in one entry both must fit, of two entries one",
    steps: [
      { policies: [ingressOfA(FROM_B)], ...pairs((from, to) => toA(to) && from !== "x/b") },
      {
        policies: [ingressOfA({ from: [{ ...NOT_IN_X, podSelector: oneOf("pod", ["b", "c"]) }] })],
        ...pairs((from, to) => toA(to) && !/[yz]\/[bc]/.test(from)),
      },
      {
        policies: [ingressOfA({ from: [NOT_IN_X, { podSelector: B }] })],
        ...pairs((from, to) => toA(to) && from === "x/c"),
      },
      {
        policies: [egressOfA({ to: [{ ...inNamespace("y"), podSelector: A }] })],
        ...pairs((from, to) => fromA(from) && to !== "y/a"),
      },
    ],
  },
  {
    title:
      "POL-24 POL-28: a namespace has its name as a label, and peers follow the labels of namespaces and pods at once",
    steps: [
      {
        policies: [ingressOfA({ from: [{ namespaceSelector: labelled({ "kubernetes.io/metadata.name": "y" }) }] })],
        ...pairs((from, to) => toA(to) && !isIn("y", from)),
      },
      {
        policies: [egressOfA({ to: [{ namespaceSelector: oneOf("kubernetes.io/metadata.name", ["y"], "NotIn") }] })],
        ...pairs((from, to) => fromA(from) && isIn("y", to)),
      },
      { policies: [ingressOfA({ from: NEW_PEERS })], ...pairs((_, to) => toA(to)) },
      {
        policies: [ingressOfA({ from: NEW_PEERS })],
        labels: { y: { new: "yes" }, "x/b": { new: "yes" } },
        ...pairs((from, to) => toA(to) && !isIn("y", from) && from !== "x/b"),
      },
    ],
  },
  {
    title:
      "POL-54: pods of the host's network count as their node: no policy selects them, and no selector makes them peers",
    steps: (lab) => {
      const host = podManifest(lab.place("node2"), "node2", { labels: { pod: "b" }, hostNetwork: true }, "x/host");
      return [
        {
          policies: [host, ingressOfA(FROM_B)],
          allowed: inBoth("x/b", "x/a", "80/TCP"),
          denied: inBoth("node2", "x/a", "80/TCP", "ICMP"),
        },
        {
          policies: [host, ingressOfA({ from: blocks("192.0.2.18/32", "2001:db8:0:2::2/128") })],
          allowed: inBoth("node2", "x/a", "80/TCP", "ICMP"),
          denied: inBoth("x/b", "x/a", "80/TCP"),
        },
        {
          policies: [host, networkPolicy("x", { policyTypes: ["Ingress", "Egress"] })],
          allowed: [
            ...inBoth("z/b", "node2", "80/TCP"),
            ...inBoth("node2", "z/b", "80/TCP"),
            ...inBoth("outside", "node2", "80/TCP"),
          ],
        },
        {
          policies: [host, egressOfA(TO_B)],
          denied: inBoth("x/a", "node2", "80/TCP"),
          allowed: inBoth("x/a", "x/b", "80/TCP"),
        },
      ];
    },
  },
  {
    title: "POL-58: a terminating pod stays isolated and stays a peer",
    steps: [
      {
        policies: [ingressOfA(FROM_B)],
        pods: { "x/a": { isTerminating: true }, "x/b": { isTerminating: true } },
        ...pairs((from, to) => toA(to) && from !== "x/b"),
      },
    ],
  },
  {
    title: "POL-57: a pod that has ended is not a peer any more, though its labels are still there",
    steps: [
      {
        policies: [ingressOfA({ from: [inNamespace("y")] })],
        pods: { "y/b": { phase: "Succeeded" }, "y/c": { phase: "Failed" } },
        allowed: inBoth("y/a", "x/a", "80/TCP"),
        // In the lab such a pod still sends from its address.
        ofPackets: { denied: ["y/b", "y/c"].flatMap((from) => inBoth(from, "x/a", "80/TCP", "80/UDP")) },
      },
    ],
  },
];
