import type { Protocol } from "../../../objects/model.ts";
import { type IsDenied, pairs } from "./lab/pairs.ts";
import { labelled, networkPolicy as policy } from "./manifest.ts";
import type { Step } from "./rows/row.ts";
import type { LabelChanges } from "./three_by_three.ts";

/** The parts of the cases' policies: most of them are about x/a. */
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
export const egressOfX = (...egress: readonly object[]): object =>
  policy("x", { podSelector: {}, egress, policyTypes: ["Egress"] });
export const named = (one: object, name: string): object => ({ ...one, metadata: { name, namespace: "x" } });

/** Whether a pod is in this namespace. */
export const isIn = (namespace: string, key: string): boolean => key.startsWith(`${namespace}/`);

/** Returns a step with the fates of all pairs of different pods over TCP port 80, the usual one, or another one. */
export function over80(
  policies: readonly object[],
  isDenied: IsDenied,
  { labels = {}, protocol = "TCP", port = 80 }: { labels?: LabelChanges; protocol?: Protocol; port?: number } = {},
): Step {
  return { policies, labels, ...pairs(isDenied, `${port}/${protocol}`) };
}
