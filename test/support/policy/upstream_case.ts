import type { Protocol } from "../../../objects/model.ts";
import type { LabelChanges } from "./three_by_three.ts";

/** One of the tests of kubernetes/test/e2e/network/netpol: its objects, step by step, and the truth table. */
export interface UpstreamCase {
  /** Its number in the order of that file. */
  readonly number: number;
  readonly name: string;
  readonly steps: readonly UpstreamStep[];
}

export interface UpstreamStep {
  /** All policies that exist at this step. */
  readonly policies: readonly object[];
  readonly labels?: LabelChanges;
  readonly protocol: Protocol;
  readonly port: number;
  /** Whether a pair of different pods, as `namespace/pod`, is denied; all others pass. */
  readonly isDenied: (from: string, to: string) => boolean;
}

/** Returns a step over TCP port 80, the usual one. */
export function over80(
  policies: readonly object[],
  isDenied: UpstreamStep["isDenied"],
  rest: Partial<UpstreamStep> = {},
): UpstreamStep {
  return { policies, protocol: "TCP", port: 80, isDenied, ...rest };
}

/** Whether a pod is in this namespace. */
export function isIn(namespace: string, key: string): boolean {
  return key.startsWith(`${namespace}/`);
}
