import { labelled, networkPolicy, oneOf } from "../../manifest.ts";
import { basePolicy, type GeneratedCase, oneStep } from "./generated_case.ts";

/** The addresses of x/b and y/c as prefixes of full length. */
export interface Hosts {
  readonly xb: readonly [string, string];
  readonly yc: readonly [string, string];
}

const LABELS_B = labelled({ pod: "b" });
const LABELS_C = labelled({ pod: "c" });

/** Returns the 16 cases that combine what x/b may send with what y/c may receive. */
export function conflictCases({ xb, yc }: Hosts): readonly GeneratedCase[] {
  const blocks = (prefixes: readonly string[]): readonly object[] => prefixes.map((cidr) => ({ ipBlock: { cidr } }));
  const egress = {
    "deny all": [],
    "allow all": [{}],
    "allow by pod": [{ to: [{ namespaceSelector: labelled({ ns: "y" }), podSelector: LABELS_C }] }],
    "allow by address": [{ to: blocks(yc) }],
  };
  const ingress = {
    "deny all": [],
    "allow all": [{}],
    "allow by pod": [{ from: [{ namespaceSelector: labelled({ ns: "x" }), podSelector: LABELS_B }] }],
    "allow by address": [{ from: blocks(xb) }],
  };
  return Object.entries(egress).flatMap(([out, egressRules]) =>
    Object.entries(ingress).map(([into, ingressRules]) =>
      oneStep(
        "conflict",
        `x/b sends: ${out}; y/c gets: ${into}`,
        networkPolicy("x", { podSelector: LABELS_B, policyTypes: ["Egress"], egress: egressRules }, "out"),
        networkPolicy("y", { podSelector: LABELS_C, policyTypes: ["Ingress"], ingress: ingressRules }, "into"),
      ),
    ),
  );
}

const DENY_ALL = networkPolicy("x", { podSelector: {}, policyTypes: ["Ingress", "Egress"] });
const NEW_LABEL = networkPolicy("x", {
  podSelector: {},
  ingress: [{ from: [{ namespaceSelector: labelled({ new: "yes" }) }] }],
});
const NEW_POD = networkPolicy("x", {
  podSelector: {},
  ingress: [{ from: [{ namespaceSelector: {}, podSelector: labelled({ new: "yes" }) }] }],
});

const ACTION_CASES: readonly GeneratedCase[] = [
  {
    group: "action",
    name: "a policy is created and deleted",
    steps: [{ policies: [] }, { policies: [DENY_ALL] }, { policies: [] }],
  },
  {
    group: "action",
    name: "a policy is created and changed",
    steps: [{ policies: [DENY_ALL] }, { policies: [basePolicy({ name: "policy" })] }],
  },
  {
    group: "action",
    name: "a namespace gets and loses a label",
    steps: [
      { policies: [NEW_LABEL] },
      { policies: [NEW_LABEL], labels: { y: { new: "yes" } } },
      { policies: [NEW_LABEL] },
    ],
  },
  {
    group: "action",
    name: "a pod gets and loses a label",
    steps: [
      { policies: [NEW_POD] },
      { policies: [NEW_POD], labels: { "y/b": { new: "yes" } } },
      { policies: [NEW_POD] },
    ],
  },
];

const TARGET_CASES: readonly GeneratedCase[] = [
  ...["x", "y", "z"].map((namespace) => oneStep("target", `pods a of ${namespace}`, basePolicy({ namespace }))),
  oneStep("target", "all pods", basePolicy({ podSelector: {} })),
  oneStep("target", "pods by a label", basePolicy({ podSelector: labelled({ pod: "b" }) })),
  oneStep("target", "pods by an expression", basePolicy({ podSelector: oneOf("pod", ["a"], "NotIn") })),
];

const RULES_CASES: readonly GeneratedCase[] = (["ingress", "egress"] as const).flatMap((direction) => [
  oneStep("rules", `nothing at ${direction}`, basePolicy({ [direction]: [] })),
  oneStep("rules", `everything at ${direction}`, basePolicy({ [direction]: [{}] })),
]);

const NAME = "kubernetes.io/metadata.name";
const NAMESPACE_CASES: readonly GeneratedCase[] = [
  oneStep(
    "namespace",
    "by its name",
    basePolicy({ ingress: [{ from: [{ namespaceSelector: labelled({ [NAME]: "y" }) }] }] }),
  ),
  oneStep(
    "namespace",
    "by other names",
    basePolicy({ egress: [{ to: [{ namespaceSelector: oneOf(NAME, ["y"], "NotIn") }] }] }),
  ),
];

export const OTHER_CASES: readonly GeneratedCase[] = [
  ...ACTION_CASES,
  ...TARGET_CASES,
  ...RULES_CASES,
  ...NAMESPACE_CASES,
  oneStep("example", "the base", basePolicy()),
];
