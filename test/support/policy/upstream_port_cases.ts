import { networkPolicy as policy } from "./manifest.ts";
import { addressOf } from "./three_by_three.ts";
import { isIn, over80, type UpstreamCase } from "./upstream_case.ts";
import {
  A,
  B,
  egressOfA,
  egressOfX,
  fromA,
  ingressOfA,
  ingressOfX,
  inNamespace,
  named,
  never,
  toA,
} from "./upstream_words.ts";

const exceptB = { ipBlock: { cidr: "10.0.0.0/8", except: [`${addressOf("x/b")}/32`] } };

/** The cases about ports, protocols, addresses and several policies. */
export const PORT_CASES: readonly UpstreamCase[] = [
  {
    number: 14,
    name: "Ports",
    steps: [
      over80(
        [ingressOfA({ from: [inNamespace("y")], ports: [{ port: 81, protocol: "TCP" }] })],
        (from, to) => toA(to) && !isIn("y", from),
        { port: 81 },
      ),
    ],
  },
  {
    number: 15,
    name: "multiple, stacked policies with overlapping podSelectors",
    steps: [81, 80].flatMap((second) => {
      const allow = (port: number): object =>
        named(ingressOfA({ from: [inNamespace("y")], ports: [{ port, protocol: "TCP" }] }), `allow-${port}`);
      const policies = second === 81 ? [allow(81)] : [allow(81), allow(80)];
      const onlyY = (from: string, to: string): boolean => toA(to) && !isIn("y", from);
      return [over80(policies, onlyY, { port: 81 }), over80(policies, second === 81 ? (_, to) => toA(to) : onlyY)];
    }),
  },
  {
    number: 16,
    name: "allow-all",
    steps: [80, 81].map((port) => over80([ingressOfX({})], never, { port })),
  },
  {
    number: 17,
    name: "ingress on one named port",
    steps: [
      over80([ingressOfX({ ports: [{ port: "serve-81-tcp" }] })], never, { port: 81 }),
      over80([ingressOfX({ ports: [{ port: "serve-81-tcp" }] })], (_, to) => isIn("x", to)),
    ],
  },
  {
    number: 18,
    name: "ingress from a namespace on one named port",
    steps: [80, 81].map((port) =>
      over80(
        [ingressOfA({ from: [inNamespace("y")], ports: [{ port: "serve-80-tcp", protocol: "TCP" }] })],
        (from, to) => toA(to) && (port === 81 || !isIn("y", from)),
        { port },
      ),
    ),
  },
  {
    number: 19,
    name: "egress on one named port",
    steps: [80, 81].map((port) =>
      over80([egressOfX({ ports: [{ port: "serve-80-tcp" }] })], (from) => port === 81 && isIn("x", from), { port }),
    ),
  },
  {
    number: 20,
    name: "an updated policy",
    steps: [
      over80([ingressOfX({})], never, { port: 81 }),
      over80([ingressOfX()], (_, to) => isIn("x", to), { port: 81 }),
    ],
  },
  {
    number: 27,
    name: "Ingress and Egress together",
    steps: [80, 81].map((port) =>
      over80(
        [
          policy("x", {
            podSelector: A,
            ingress: [{ from: [{ podSelector: B }] }],
            egress: [{ ports: [{ port: 80 }] }],
            policyTypes: ["Egress", "Ingress"],
          }),
        ],
        (from, to) => (toA(to) && from !== "x/b") || (port === 81 && fromA(from)),
        { port },
      ),
    ),
  },
  {
    number: 30,
    name: "ingress on any port of a specific protocol",
    steps: (["TCP", "UDP"] as const).map((protocol) =>
      over80([ingressOfA({ ports: [{ protocol: "TCP" }] })], (_, to) => protocol === "UDP" && toA(to), { protocol }),
    ),
  },
  {
    number: 31,
    name: "multiple ingress policies, allow-all takes precedence",
    steps: [
      over80([ingressOfX({ ports: [{ port: 80 }] })], (_, to) => isIn("x", to), { port: 81 }),
      over80([named(ingressOfX({ ports: [{ port: 80 }] }), "80"), named(ingressOfX({}), "all")], never, { port: 81 }),
    ],
  },
  {
    number: 32,
    name: "multiple egress policies, allow-all takes precedence",
    steps: [
      over80([egressOfX({ ports: [{ port: 80 }] })], (from) => isIn("x", from), { port: 81 }),
      over80([named(egressOfX({ ports: [{ port: 80 }] }), "80"), named(egressOfX({}), "all")], never, { port: 81 }),
    ],
  },
  {
    number: 33,
    name: "deleted policies are not enforced",
    steps: [
      over80(
        [policy("x", { podSelector: {}, policyTypes: ["Ingress", "Egress"] })],
        (from, to) => isIn("x", from) || isIn("x", to),
      ),
      over80([], never),
    ],
  },
  {
    number: 34,
    name: "egress to a server in a CIDR block",
    steps: [
      over80(
        [egressOfA({ to: [{ ipBlock: { cidr: `${addressOf("y/b")}/32` } }] })],
        (from, to) => fromA(from) && to !== "y/b",
      ),
    ],
  },
  {
    number: 35,
    name: "the except clause",
    steps: [over80([egressOfA({ to: [exceptB] })], (from, to) => fromA(from) && to === "x/b")],
  },
  {
    number: 36,
    name: "an address in both a CIDR and an Except of policies",
    steps: [
      over80([egressOfA({ to: [exceptB] })], (from, to) => fromA(from) && to === "x/b"),
      over80(
        [egressOfA({ to: [{ ipBlock: { cidr: `${addressOf("x/b")}/32` } }] })],
        (from, to) => fromA(from) && to !== "x/b",
      ),
      over80(
        [
          named(egressOfA({ to: [exceptB] }), "except"),
          named(egressOfA({ to: [{ ipBlock: { cidr: `${addressOf("x/b")}/32` } }] }), "overlap"),
        ],
        never,
      ),
    ],
  },
  {
    number: 38,
    name: "SCTP is not taken for TCP",
    steps: [
      over80(
        [named(ingressOfX(), "deny"), named(ingressOfA({ ports: [{ port: 81, protocol: "SCTP" }] }), "sctp")],
        (_, to) => isIn("x", to),
        { port: 81 },
      ),
    ],
  },
  {
    number: 39,
    name: "a policy that allows SCTP isolates",
    steps: [over80([ingressOfA({ ports: [{ port: 80, protocol: "SCTP" }] })], (_, to) => toA(to), { port: 81 })],
  },
  {
    number: 40,
    name: "a policy that allows only UDP does not allow TCP",
    steps: [over80([ingressOfA({ ports: [{ port: 81, protocol: "UDP" }] })], (_, to) => toA(to), { port: 81 })],
  },
  ...(["UDP", "SCTP"] as const).flatMap((protocol, group): readonly UpstreamCase[] => [
    {
      number: 43 + 3 * group,
      name: `${protocol}: default-deny-ingress`,
      steps: [over80([ingressOfX()], (_, to) => isIn("x", to), { protocol })],
    },
    {
      number: 44 + 3 * group,
      name: `${protocol}: Ports`,
      steps: [80, 81].map((port) =>
        over80(
          [ingressOfA({ from: [inNamespace("y")], ports: [{ port: 81, protocol }] })],
          (from, to) => toA(to) && (port === 80 || !isIn("y", from)),
          { protocol, port },
        ),
      ),
    },
    {
      number: 45 + 3 * group,
      name: `${protocol}: only from a pod of another namespace by both selectors`,
      steps: [
        over80(
          [ingressOfA({ from: [{ ...inNamespace("y"), podSelector: A }] })],
          (from, to) => toA(to) && from !== "y/a",
          { protocol },
        ),
      ],
    },
  ]),
];
