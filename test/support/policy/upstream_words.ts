import { labelled, networkPolicy as policy } from "./manifest.ts";

/** What the cases put together: x/a is mostly the pod that matters. */
export const A = labelled({ pod: "a" });
export const B = labelled({ pod: "b" });
export const inNamespace = (namespace: string): object => ({ namespaceSelector: labelled({ ns: namespace }) });
export const toA = (to: string): boolean => to === "x/a";
export const fromA = (from: string): boolean => from === "x/a";
export const never = (): boolean => false;

/** Ingress of x/a by these rules. */
export const ingressOfA = (...ingress: readonly object[]): object => policy("x", { podSelector: A, ingress });
export const ingressOfX = (...ingress: readonly object[]): object => policy("x", { podSelector: {}, ingress });
export const egressOfA = (...egress: readonly object[]): object =>
  policy("x", { podSelector: A, egress, policyTypes: ["Egress"] });
export const egressOfX = (...egress: readonly object[]): object =>
  policy("x", { podSelector: {}, egress, policyTypes: ["Egress"] });
export const named = (one: object, name: string): object => ({ ...one, metadata: { name, namespace: "x" } });
