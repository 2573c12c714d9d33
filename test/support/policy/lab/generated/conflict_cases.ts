import { labelled, networkPolicy } from "../../manifest.ts";
import type { GeneratedCase } from "./generated_case.ts";

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
    Object.entries(ingress).map(([into, ingressRules]): GeneratedCase => ({
      group: "conflict",
      name: `x/b sends: ${out}; y/c gets: ${into}`,
      policies: [
        networkPolicy("x", { podSelector: LABELS_B, policyTypes: ["Egress"], egress: egressRules }, "out"),
        networkPolicy("y", { podSelector: LABELS_C, policyTypes: ["Ingress"], ingress: ingressRules }, "into"),
      ],
    })),
  );
}
