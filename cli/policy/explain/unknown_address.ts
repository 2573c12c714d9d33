import type { Direction, Traffic } from "../../../objects/semantics/policies/flow.ts";
import type { IndexedRule } from "../../../objects/semantics/policies/indexed_policy.ts";
import { fitsPort } from "../../../objects/semantics/policies/match.ts";
import type { PolicyIndex } from "../../../objects/semantics/policies/policy_index.ts";
import type { Decision, EvaluatedFlow, Party } from "../../../objects/semantics/policies/verdict.ts";

/** A rule about addresses that was evaluated for a pod or a node without an address in the input. */
export interface UnknownAddress {
  /** `NS/POD` or `node/NAME` */
  readonly host: string;
  /** Kind and key. */
  readonly policy: string;
  readonly direction: Direction;
  readonly rule: number;
}

/** Returns the rules that might have decided differently if the address were known. */
export function unknownAddresses(
  index: PolicyIndex,
  direction: Direction,
  flow: EvaluatedFlow,
  traffic: Traffic,
): readonly UnknownAddress[] {
  const [own, other] = direction === "egress" ? [flow.source, flow.destination] : [flow.destination, flow.source];
  const profile = own.type === "pod" ? index.pods.get(own.key)?.subject?.profile[direction] : undefined;
  if (other.type === "outside" || other.address !== undefined || profile === undefined) return [];
  const host = nameOf(other);
  const destination = index.pods.get(flow.destination.type === "pod" ? flow.destination.key : "")?.pod;
  const end = { pod: destination, party: flow.destination, address: undefined, subject: undefined, others: [] };
  const mayFit = ({ peers, ports }: IndexedRule): boolean =>
    (peers ?? []).some(({ type }) => type === "addresses") &&
    (ports ?? [undefined]).some((port) => port === undefined || fitsPort(port, traffic, end));
  const asked = askedTiers(flow[direction].decision);
  const cluster = [...(asked.admin ? profile.admin : []), ...(asked.baseline ? profile.baseline : [])];
  const found = [
    ...cluster.map(({ policy, rules }) => ({ policy: `ClusterNetworkPolicy ${policy.key}`, rules })),
    ...(asked.network ? profile.isolating : []).map(({ policy, rules }) => ({
      policy: `NetworkPolicy ${policy.key}`,
      rules,
    })),
  ];
  return found.flatMap(({ policy, rules }) =>
    rules[direction].filter(mayFit).map((rule) => ({ host, policy, direction, rule: rule.index })),
  );
}

/** Returns the tiers with rules that could still matter: later tiers are not evaluated, and allowing rules add up. */
function askedTiers(decision: Decision): Readonly<Record<"admin" | "network" | "baseline", boolean>> {
  switch (decision.type) {
    case "exempt":
      return { admin: false, network: false, baseline: false };
    case "rule":
      return { admin: true, network: false, baseline: false };
    case "isolated":
      return { admin: true, network: true, baseline: false };
    case "default":
      return { admin: true, network: true, baseline: true };
    case "cluster rule":
      return { admin: true, network: false, baseline: decision.rule.tier === "Baseline" };
  }
}

function nameOf(party: Exclude<Party, { readonly type: "outside" }>): string {
  if (party.type === "pod") return party.key;
  return party.pod ?? `node/${party.name ?? "unknown"}`;
}
