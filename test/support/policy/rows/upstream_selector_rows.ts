import { labelled, oneOf, networkPolicy as policy } from "../manifest.ts";
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
import type { Row } from "./row.ts";

/** The cases of Kubernetes' own network policy tests (kubernetes/test/e2e/network/netpol) about selectors and directions, where no port and no address matters. */
export const UPSTREAM_SELECTOR_ROWS: readonly Row[] = [
  { title: "POL-61: upstream 1: default-deny-ingress", steps: [over80([ingressOfX()], (_, to) => isIn("x", to))] },
  {
    title: "POL-61: upstream 2: default-deny-all",
    steps: [
      over80(
        [policy("x", { podSelector: {}, policyTypes: ["Ingress", "Egress"] })],
        (from, to) => isIn("x", from) || isIn("x", to),
      ),
    ],
  },
  {
    title: "POL-21 POL-61: upstream 3: ingress from pods of the server's namespace by PodSelector",
    steps: [over80([ingressOfA({ from: [{ podSelector: B }] })], (from, to) => toA(to) && from !== "x/b")],
  },
  {
    title: "POL-61: upstream 4: ingress for a target",
    steps: [
      over80(
        [
          named(ingressOfX(), "deny-all"),
          named(ingressOfA({ from: [{ podSelector: {}, namespaceSelector: {} }] }), "allow-all-to-a"),
        ],
        (_, to) => isIn("x", to) && !toA(to),
      ),
    ],
  },
  {
    title: "POL-61: upstream 5: ingress from pods of all namespaces",
    steps: [over80([ingressOfA({ from: [{ namespaceSelector: { matchLabels: {} } }] })], never)],
  },
  {
    title: "POL-61: upstream 6: only from another namespace, by NamespaceSelector",
    steps: [over80([ingressOfA({ from: [inNamespace("y")] })], (from, to) => toA(to) && !isIn("y", from))],
  },
  {
    title: "POL-61: upstream 7: PodSelector with MatchExpressions",
    steps: [
      over80([ingressOfA({ from: [{ podSelector: oneOf("pod", ["b"]) }] })], (from, to) => toA(to) && from !== "x/b"),
    ],
  },
  {
    title: "POL-61: upstream 8: NamespaceSelector with MatchExpressions",
    steps: [
      over80(
        [ingressOfA({ from: [{ namespaceSelector: oneOf("ns", ["y"]) }] })],
        (from, to) => toA(to) && !isIn("y", from),
      ),
    ],
  },
  {
    title: "POL-23 POL-61: upstream 9: PodSelector or NamespaceSelector",
    steps: [
      over80(
        [ingressOfA({ from: [{ namespaceSelector: oneOf("ns", ["x"], "NotIn") }, { podSelector: B }] })],
        (from, to) => toA(to) && from === "x/c",
      ),
    ],
  },
  {
    title: "POL-23 POL-61: upstream 10: PodSelector and NamespaceSelector",
    steps: [
      over80(
        [ingressOfA({ from: [{ namespaceSelector: oneOf("ns", ["x"], "NotIn"), podSelector: B }] })],
        (from, to) => toA(to) && !["y/b", "z/b"].includes(from),
      ),
    ],
  },
  {
    title: "POL-61: upstream 11: multiple PodSelectors and NamespaceSelectors",
    steps: [
      over80(
        [
          ingressOfA({
            from: [{ namespaceSelector: oneOf("ns", ["x"], "NotIn"), podSelector: oneOf("pod", ["b", "c"]) }],
          }),
        ],
        (from, to) => toA(to) && !["y/b", "y/c", "z/b", "z/c"].includes(from),
      ),
    ],
  },
  {
    title: "POL-61: upstream 12: any PodSelectors",
    steps: [
      over80(
        [ingressOfA({ from: [{ podSelector: B }, { podSelector: labelled({ pod: "c" }) }] })],
        (from, to) => toA(to) && !["x/b", "x/c"].includes(from),
      ),
    ],
  },
  {
    title: "POL-61: upstream 13: only from a pod of another namespace by both selectors",
    steps: [
      over80(
        [ingressOfA({ from: [{ ...inNamespace("y"), podSelector: A }] })],
        (from, to) => toA(to) && from !== "y/a",
      ),
    ],
  },
  {
    title: "POL-28 POL-61: upstream 21: ingress from an updated namespace",
    steps: [
      over80([ingressOfA({ from: [{ namespaceSelector: labelled({ ns2: "updated" }) }] })], (_, to) => toA(to)),
      over80(
        [ingressOfA({ from: [{ namespaceSelector: labelled({ ns2: "updated" }) }] })],
        (from, to) => toA(to) && !isIn("y", from),
        { labels: { y: { ns2: "updated" } } },
      ),
    ],
  },
  {
    title: "POL-28 POL-61: upstream 22: ingress from an updated pod",
    steps: [
      over80([ingressOfA({ from: [{ podSelector: labelled({ pod: "b", pod2: "updated" }) }] })], (_, to) => toA(to)),
      over80(
        [ingressOfA({ from: [{ podSelector: labelled({ pod: "b", pod2: "updated" }) }] })],
        (from, to) => toA(to) && from !== "x/b",
        { labels: { "x/b": { pod2: "updated" } } },
      ),
    ],
  },
  {
    title: "POL-61: upstream 23: no ingress from pods of other namespaces",
    steps: [over80([ingressOfX({ from: [{ podSelector: {} }] })], (from, to) => isIn("x", to) && !isIn("x", from))],
  },
  {
    title: "POL-28 POL-61: upstream 24: no ingress to an updated pod",
    steps: [
      over80([policy("x", { podSelector: labelled({ target: "isolated" }), ingress: [] })], never),
      over80([policy("x", { podSelector: labelled({ target: "isolated" }), ingress: [] })], (_, to) => toA(to), {
        labels: { "x/a": { target: "isolated" } },
      }),
    ],
  },
  { title: "POL-61: upstream 25: no egress from pods by PodSelector", steps: [over80([egressOfA()], fromA)] },
  {
    title: "POL-61: upstream 26: no egress from all pods of a namespace",
    steps: [over80([egressOfX()], (from) => isIn("x", from))],
  },
  {
    title: "POL-61: upstream 28: egress is denied at the client even if the server allows it",
    steps: [
      over80(
        [
          egressOfA({ to: [{ ...inNamespace("y"), podSelector: A }] }),
          ...["a", "b"].map((pod) =>
            policy(
              "y",
              {
                podSelector: labelled({ pod }),
                ingress: [{ from: [{ ...inNamespace("x"), podSelector: A }] }],
              },
              `allow-from-xa-on-y${pod}`,
            ),
          ),
        ],
        (from, to) => (fromA(from) ? to !== "y/a" : ["y/a", "y/b"].includes(to)),
      ),
    ],
  },
  {
    title: "POL-61: upstream 29: egress to a server of another namespace by both selectors",
    steps: [
      over80([egressOfA({ to: [{ ...inNamespace("y"), podSelector: A }] })], (from, to) => fromA(from) && to !== "y/a"),
    ],
  },
  {
    title: "POL-61: upstream 37: ingress and egress are independent of each other",
    steps: [
      over80([egressOfA({})], never),
      over80([named(egressOfA({}), "allow-egress"), named(ingressOfA(), "deny-ingress")], (_, to) => toA(to)),
    ],
  },
  {
    title: "POL-24 POL-61: upstream 41: the default label of namespaces with MatchLabels",
    steps: [
      over80(
        [ingressOfA({ from: [{ namespaceSelector: labelled({ "kubernetes.io/metadata.name": "y" }) }] })],
        (from, to) => toA(to) && !isIn("y", from),
      ),
    ],
  },
  {
    title: "POL-24 POL-61: upstream 42: the default label of namespaces with MatchExpressions",
    steps: [
      over80(
        [egressOfA({ to: [{ namespaceSelector: oneOf("kubernetes.io/metadata.name", ["y"], "NotIn") }] })],
        (from, to) => fromA(from) && isIn("y", to),
      ),
    ],
  },
];
