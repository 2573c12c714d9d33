import type { NodeFacts } from "../../../cli/node/doctor/facts.ts";
import type { Severity } from "../../../cli/node/doctor/finding.ts";
import type { Step } from "../../../kernel/nftables/foreign/step.ts";

/** Returns a chain of iptables-nft with one rule of these steps. */
export function foreignForward(policy: "accept" | "drop", steps: readonly Step[]): Partial<NodeFacts> {
  const base = { hook: "forward", priority: 0, policy, devices: [] } as const;
  const chain = { name: "FORWARD", rules: [{ handle: 5n, steps }], base };
  const table = { family: "ip", name: "filter", chains: new Map([["FORWARD", chain]]), sets: new Map() } as const;
  return { foreignTables: { value: [table] } };
}

/** Cases of foreign rules that drop packets which pods need: check, facts, severity and message. */
export const FOREIGN_DROP_CASES: readonly (readonly [string, Partial<NodeFacts>, Severity, RegExp])[] = [
  ["foreign-drops", foreignForward("drop", []), "error", /ip filter FORWARD.*drops.*Docker.*pod to pod \(IPv4 TCP/],
  [
    "foreign-drops",
    foreignForward("accept", [{ kind: "end", end: { kind: "reject" } }]),
    "error",
    /ip filter FORWARD, hook forward, rejects/,
  ],
  [
    "foreign-drops",
    foreignForward("accept", [
      { kind: "doubt", name: "limit" },
      { kind: "end", end: { kind: "drop" } },
    ]),
    "info",
    /ip filter FORWARD, hook forward, may drop/,
  ],
];
