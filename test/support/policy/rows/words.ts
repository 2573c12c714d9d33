import { labelled, networkPolicy as policy } from "../manifest.ts";

/** The parts of the rows' policies: most of them are about x/a. */
export const A = labelled({ pod: "a" });
export const B = labelled({ pod: "b" });
export const inNamespace = (namespace: string): object => ({ namespaceSelector: labelled({ ns: namespace }) });
export const toA = (to: string): boolean => to === "x/a";
export const fromA = (from: string): boolean => from === "x/a";
export const never = (): boolean => false;

/** Returns a policy for ingress of x/a with these rules. */
export const ingressOfA = (...ingress: readonly object[]): object => policy("x", { podSelector: A, ingress });
export const ingressOfX = (...ingress: readonly object[]): object => policy("x", { podSelector: {}, ingress });
export const egressOfA = (...egress: readonly object[]): object =>
  policy("x", { podSelector: A, egress, policyTypes: ["Egress"] });
export const named = (one: object, name: string): object => ({ ...one, metadata: { name, namespace: "x" } });

/** Whether a pod is in this namespace. */
export const isIn = (namespace: string, key: string): boolean => key.startsWith(`${namespace}/`);
