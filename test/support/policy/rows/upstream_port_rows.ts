import type { PolicyLab } from "../lab/policy_lab.ts";
import { networkPolicy as policy } from "../manifest.ts";
import {
  A,
  B,
  egressOfA,
  egressOfX,
  fromA,
  ingressOfA,
  ingressOfX,
  inNamespace,
  isIn,
  named,
  never,
  over80,
  toA,
} from "../upstream_words.ts";
import { blocks, prefixesOf, type Row } from "./row.ts";

/** Returns blocks of all pods but x/b. */
function exceptB(lab: PolicyLab): readonly object[] {
  const [v4, v6] = prefixesOf(lab, "x/b");
  return [{ ipBlock: { cidr: "10.0.0.0/8", except: [v4] } }, { ipBlock: { cidr: "fd00::/8", except: [v6] } }];
}

/** The cases of Kubernetes' own network policy tests about ports, protocols, addresses and several policies. */
export const UPSTREAM_PORT_ROWS: readonly Row[] = [
  {
    title: "POL-61: upstream 14: Ports",
    steps: [
      over80(
        [ingressOfA({ from: [inNamespace("y")], ports: [{ port: 81, protocol: "TCP" }] })],
        (from, to) => toA(to) && !isIn("y", from),
        { port: 81 },
      ),
    ],
  },
  {
    title: "POL-04 POL-61: upstream 15: multiple, stacked policies with overlapping podSelectors",
    steps: [81, 80].flatMap((second) => {
      const allow = (port: number): object =>
        named(ingressOfA({ from: [inNamespace("y")], ports: [{ port, protocol: "TCP" }] }), `allow-${port}`);
      const policies = second === 81 ? [allow(81)] : [allow(81), allow(80)];
      const onlyY = (from: string, to: string): boolean => toA(to) && !isIn("y", from);
      return [over80(policies, onlyY, { port: 81 }), over80(policies, second === 81 ? (_, to) => toA(to) : onlyY)];
    }),
  },
  {
    title: "POL-13 POL-61: upstream 16: allow-all",
    steps: [80, 81].map((port) => over80([ingressOfX({})], never, { port })),
  },
  {
    title: "POL-61: upstream 17: ingress on one named port",
    steps: [
      over80([ingressOfX({ ports: [{ port: "serve-81-tcp" }] })], never, { port: 81 }),
      over80([ingressOfX({ ports: [{ port: "serve-81-tcp" }] })], (_, to) => isIn("x", to)),
    ],
  },
  {
    title: "POL-61: upstream 18: ingress from a namespace on one named port",
    steps: [80, 81].map((port) =>
      over80(
        [ingressOfA({ from: [inNamespace("y")], ports: [{ port: "serve-80-tcp", protocol: "TCP" }] })],
        (from, to) => toA(to) && (port === 81 || !isIn("y", from)),
        { port },
      ),
    ),
  },
  {
    title: "POL-61: upstream 19: egress on one named port",
    steps: [80, 81].map((port) =>
      over80([egressOfX({ ports: [{ port: "serve-80-tcp" }] })], (from) => port === 81 && isIn("x", from), { port }),
    ),
  },
  {
    title: "POL-61: upstream 20: an updated policy",
    steps: [
      over80([ingressOfX({})], never, { port: 81 }),
      over80([ingressOfX()], (_, to) => isIn("x", to), { port: 81 }),
    ],
  },
  {
    title: "POL-61: upstream 27: Ingress and Egress together",
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
    title: "POL-61: upstream 30: ingress on any port of a specific protocol",
    steps: (["TCP", "UDP"] as const).map((protocol) =>
      over80([ingressOfA({ ports: [{ protocol: "TCP" }] })], (_, to) => protocol === "UDP" && toA(to), { protocol }),
    ),
  },
  {
    title: "POL-13 POL-61: upstream 31: multiple ingress policies, allow-all takes precedence",
    steps: [
      over80([ingressOfX({ ports: [{ port: 80 }] })], (_, to) => isIn("x", to), { port: 81 }),
      over80([named(ingressOfX({ ports: [{ port: 80 }] }), "80"), named(ingressOfX({}), "all")], never, { port: 81 }),
    ],
  },
  {
    title: "POL-13 POL-61: upstream 32: multiple egress policies, allow-all takes precedence",
    steps: [
      over80([egressOfX({ ports: [{ port: 80 }] })], (from) => isIn("x", from), { port: 81 }),
      over80([named(egressOfX({ ports: [{ port: 80 }] }), "80"), named(egressOfX({}), "all")], never, { port: 81 }),
    ],
  },
  {
    title: "POL-61: upstream 33: deleted policies are not enforced",
    steps: [
      over80(
        [policy("x", { podSelector: {}, policyTypes: ["Ingress", "Egress"] })],
        (from, to) => isIn("x", from) || isIn("x", to),
      ),
      over80([], never),
    ],
  },
  {
    title: "POL-61: upstream 34: egress to a server in a CIDR block",
    steps: (lab) => [
      over80([egressOfA({ to: blocks(...prefixesOf(lab, "y/b")) })], (from, to) => fromA(from) && to !== "y/b"),
    ],
  },
  {
    title: "POL-61: upstream 35: the except clause",
    steps: (lab) => [over80([egressOfA({ to: exceptB(lab) })], (from, to) => fromA(from) && to === "x/b")],
  },
  {
    title: "POL-61: upstream 36: an address in both a CIDR and an Except of policies",
    steps: (lab) => {
      const [all, only] = [egressOfA({ to: exceptB(lab) }), egressOfA({ to: blocks(...prefixesOf(lab, "x/b")) })];
      return [
        over80([all], (from, to) => fromA(from) && to === "x/b"),
        over80([only], (from, to) => fromA(from) && to !== "x/b"),
        over80([named(all, "except"), named(only, "overlap")], never),
      ];
    },
  },
  {
    title: "POL-61: upstream 38: SCTP is not taken for TCP",
    steps: [
      over80(
        [named(ingressOfX(), "deny"), named(ingressOfA({ ports: [{ port: 81, protocol: "SCTP" }] }), "sctp")],
        (_, to) => isIn("x", to),
        { port: 81 },
      ),
    ],
  },
  {
    title: "POL-61: upstream 39: a policy that allows SCTP isolates",
    steps: [over80([ingressOfA({ ports: [{ port: 80, protocol: "SCTP" }] })], (_, to) => toA(to), { port: 81 })],
  },
  {
    title: "POL-61: upstream 40: a policy that allows only UDP does not allow TCP",
    steps: [over80([ingressOfA({ ports: [{ port: 81, protocol: "UDP" }] })], (_, to) => toA(to), { port: 81 })],
  },
  ...(["UDP", "SCTP"] as const).flatMap((protocol, group): readonly Row[] => [
    {
      title: `POL-61: upstream ${43 + 3 * group}: ${protocol}: default-deny-ingress`,
      steps: [over80([ingressOfX()], (_, to) => isIn("x", to), { protocol })],
    },
    {
      title: `POL-61: upstream ${44 + 3 * group}: ${protocol}: Ports`,
      steps: [80, 81].map((port) =>
        over80(
          [ingressOfA({ from: [inNamespace("y")], ports: [{ port: 81, protocol }] })],
          (from, to) => toA(to) && (port === 80 || !isIn("y", from)),
          { protocol, port },
        ),
      ),
    },
    {
      title: `POL-61: upstream ${45 + 3 * group}: ${protocol}: only from a pod of another namespace by both selectors`,
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
