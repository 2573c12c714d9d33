import { networkPolicy, oneOf } from "../../manifest.ts";

/** A policy like those of cyclonus' generator, or two. */
export interface GeneratedCase {
  readonly group: "peers" | "ports" | "conflict";
  readonly name: string;
  readonly policies: readonly object[];
}

export type Direction = "ingress" | "egress";

export const DIRECTIONS: readonly Direction[] = ["ingress", "egress"];

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
 * Returns the policy that all cases begin with, with these peers, or these ports, in a direction. It is for x/a, and has
 * one rule of each direction with a peer and a port, and DNS.
 */
export function baseWith(
  direction: Direction,
  { peers, ports = PORT }: { readonly peers?: readonly object[]; readonly ports?: readonly object[] },
): object {
  const [ingress, egress] = [
    { from: FROM, ports: PORT },
    { to: TO, ports: PORT },
  ];
  const spec = { podSelector: { matchLabels: { pod: "a" } }, policyTypes: ["Ingress", "Egress"] };
  return direction === "ingress"
    ? networkPolicy("x", { ...spec, ingress: [{ from: peers ?? FROM, ports }], egress: [egress, DNS] }, "base")
    : networkPolicy("x", { ...spec, ingress: [ingress], egress: [{ to: peers ?? TO, ports }, DNS] }, "base");
}
