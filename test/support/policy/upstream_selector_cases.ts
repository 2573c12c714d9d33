import { labelled, oneOf, networkPolicy as policy } from "./manifest.ts";
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

/** The cases about selectors and directions, where no port and no address matters. */
export const SELECTOR_CASES: readonly UpstreamCase[] = [
  {
    number: 1,
    name: "default-deny-ingress",
    steps: [over80([ingressOfX()], (_, to) => isIn("x", to))],
  },
  {
    number: 2,
    name: "default-deny-all",
    steps: [
      over80(
        [policy("x", { podSelector: {}, policyTypes: ["Ingress", "Egress"] })],
        (from, to) => isIn("x", from) || isIn("x", to),
      ),
    ],
  },
  {
    number: 3,
    name: "ingress from pods of the server's namespace by PodSelector",
    steps: [over80([ingressOfA({ from: [{ podSelector: B }] })], (from, to) => toA(to) && from !== "x/b")],
  },
  {
    number: 4,
    name: "ingress for a target",
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
    number: 5,
    name: "ingress from pods of all namespaces",
    steps: [over80([ingressOfA({ from: [{ namespaceSelector: { matchLabels: {} } }] })], never)],
  },
  {
    number: 6,
    name: "only from another namespace, by NamespaceSelector",
    steps: [over80([ingressOfA({ from: [inNamespace("y")] })], (from, to) => toA(to) && !isIn("y", from))],
  },
  {
    number: 7,
    name: "PodSelector with MatchExpressions",
    steps: [
      over80([ingressOfA({ from: [{ podSelector: oneOf("pod", ["b"]) }] })], (from, to) => toA(to) && from !== "x/b"),
    ],
  },
  {
    number: 8,
    name: "NamespaceSelector with MatchExpressions",
    steps: [
      over80(
        [ingressOfA({ from: [{ namespaceSelector: oneOf("ns", ["y"]) }] })],
        (from, to) => toA(to) && !isIn("y", from),
      ),
    ],
  },
  {
    number: 9,
    name: "PodSelector or NamespaceSelector",
    steps: [
      over80(
        [ingressOfA({ from: [{ namespaceSelector: oneOf("ns", ["x"], "NotIn") }, { podSelector: B }] })],
        (from, to) => toA(to) && from === "x/c",
      ),
    ],
  },
  {
    number: 10,
    name: "PodSelector and NamespaceSelector",
    steps: [
      over80(
        [ingressOfA({ from: [{ namespaceSelector: oneOf("ns", ["x"], "NotIn"), podSelector: B }] })],
        (from, to) => toA(to) && !["y/b", "z/b"].includes(from),
      ),
    ],
  },
  {
    number: 11,
    name: "multiple PodSelectors and NamespaceSelectors",
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
    number: 12,
    name: "any PodSelectors",
    steps: [
      over80(
        [ingressOfA({ from: [{ podSelector: B }, { podSelector: labelled({ pod: "c" }) }] })],
        (from, to) => toA(to) && !["x/b", "x/c"].includes(from),
      ),
    ],
  },
  {
    number: 13,
    name: "only from a pod of another namespace by both selectors",
    steps: [
      over80(
        [ingressOfA({ from: [{ ...inNamespace("y"), podSelector: A }] })],
        (from, to) => toA(to) && from !== "y/a",
      ),
    ],
  },
  {
    number: 21,
    name: "ingress from an updated namespace",
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
    number: 22,
    name: "ingress from an updated pod",
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
    number: 23,
    name: "no ingress from pods of other namespaces",
    steps: [over80([ingressOfX({ from: [{ podSelector: {} }] })], (from, to) => isIn("x", to) && !isIn("x", from))],
  },
  {
    number: 24,
    name: "no ingress to an updated pod",
    steps: [
      over80([policy("x", { podSelector: labelled({ target: "isolated" }), ingress: [] })], never),
      over80([policy("x", { podSelector: labelled({ target: "isolated" }), ingress: [] })], (_, to) => toA(to), {
        labels: { "x/a": { target: "isolated" } },
      }),
    ],
  },
  {
    number: 25,
    name: "no egress from pods by PodSelector",
    steps: [over80([egressOfA()], fromA)],
  },
  {
    number: 26,
    name: "no egress from all pods of a namespace",
    steps: [over80([egressOfX()], (from) => isIn("x", from))],
  },
  {
    number: 28,
    name: "egress is denied at the client even if the server allows it",
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
    number: 29,
    name: "egress to a server of another namespace by both selectors",
    steps: [
      over80([egressOfA({ to: [{ ...inNamespace("y"), podSelector: A }] })], (from, to) => fromA(from) && to !== "y/a"),
    ],
  },
  {
    number: 37,
    name: "ingress and egress are independent of each other",
    steps: [
      over80([egressOfA({})], never),
      over80([named(egressOfA({}), "allow-egress"), named(ingressOfA(), "deny-ingress")], (_, to) => toA(to)),
    ],
  },
  {
    number: 41,
    name: "the default label of namespaces with MatchLabels",
    steps: [
      over80(
        [ingressOfA({ from: [{ namespaceSelector: labelled({ "kubernetes.io/metadata.name": "y" }) }] })],
        (from, to) => toA(to) && !isIn("y", from),
      ),
    ],
  },
  {
    number: 42,
    name: "the default label of namespaces with MatchExpressions",
    steps: [
      over80(
        [egressOfA({ to: [{ namespaceSelector: oneOf("kubernetes.io/metadata.name", ["y"], "NotIn") }] })],
        (from, to) => fromA(from) && isIn("y", to),
      ),
    ],
  },
];
