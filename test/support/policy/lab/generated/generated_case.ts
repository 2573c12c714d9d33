import { networkPolicy, oneOf } from "../../manifest.ts";
import type { LabelChanges } from "../../three_by_three.ts";

/** A policy like those of cyclonus' generator, or several, with the steps of a test. */
export interface GeneratedCase {
  readonly group: GeneratedGroup;
  readonly name: string;
  readonly steps: readonly GeneratedStep[];
}

/** The generator's tags. */
export type GeneratedGroup = "peers" | "ports" | "conflict" | "action" | "target" | "rules" | "namespace" | "example";

export interface GeneratedStep {
  /** All policies that exist at this step. */
  readonly policies: readonly object[];
  readonly labels?: LabelChanges;
}

export type Direction = "ingress" | "egress";

export const DIRECTIONS: readonly Direction[] = ["ingress", "egress"];

/** The parts that a case changes in the policy that all cases begin with. */
export interface Changes {
  readonly namespace?: string;
  readonly podSelector?: object;
  readonly ingress?: readonly object[];
  readonly egress?: readonly object[];
  readonly name?: string;
}

const FROM = [{ namespaceSelector: oneOf("ns", ["x", "y"]), podSelector: oneOf("pod", ["b", "c"]) }];
const TO = [{ namespaceSelector: oneOf("ns", ["y", "z"]), podSelector: oneOf("pod", ["a", "b"]) }];
const PORT = [{ protocol: "TCP", port: 80 }];
const DNS = {
  ports: [
    { protocol: "TCP", port: 53 },
    { protocol: "UDP", port: 53 },
  ],
};

/**
 * Returns the policy that all cases begin with, for x/a: one rule of each direction with a peer and a port, and DNS.
 */
export function basePolicy(changes: Changes = {}): object {
  const spec = {
    podSelector: { matchLabels: { pod: "a" } },
    policyTypes: ["Ingress", "Egress"],
    ingress: [{ from: FROM, ports: PORT }],
    egress: [{ to: TO, ports: PORT }, DNS],
  };
  const { namespace = "x", name = "base", ...rest } = changes;
  return networkPolicy(namespace, { ...spec, ...rest }, name);
}

/** Returns the base policy with these peers, or these ports, in a direction. */
export function baseWith(
  direction: Direction,
  { peers, ports = PORT }: { readonly peers?: readonly object[]; readonly ports?: readonly object[] },
): object {
  return direction === "ingress"
    ? basePolicy({ ingress: [{ from: peers ?? FROM, ports }] })
    : basePolicy({ egress: [{ to: peers ?? TO, ports }, DNS] });
}

/** Returns a case of one step. */
export function oneStep(group: GeneratedGroup, name: string, ...policies: readonly object[]): GeneratedCase {
  return { group, name, steps: [{ policies }] };
}
