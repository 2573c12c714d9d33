import { familyOf } from "../../../kernel/ip/address.ts";
import { type Cidr, cidrFamily } from "../../../kernel/ip/cidr.ts";
import { isFinished } from "../../../objects/semantics/policies/address_owner.ts";
import { type Direction, DIRECTIONS, type Traffic } from "../../../objects/semantics/policies/flow.ts";
import type {
  IndexedClusterPolicy,
  IndexedNetworkPolicy,
  IndexedRule,
} from "../../../objects/semantics/policies/indexed_policy.ts";
import { fitsPort, hasEveryAddress } from "../../../objects/semantics/policies/match.ts";
import { printable } from "../../../objects/printable.ts";
import type { PolicyIndex } from "../../../objects/semantics/policies/policy_index.ts";
import type { Decision, EvaluatedFlow, Party } from "../../../objects/semantics/policies/verdict.ts";
import type { Io } from "../../io.ts";
import { counted } from "../../output/text.ts";

/** A rule about addresses that was evaluated for a pod or a node without an address in the input. */
export interface UnknownAddress {
  /** `NS/POD` or `node/NAME` */
  readonly host: string;
  /** Kind and key. */
  readonly policy: string;
  readonly direction: Direction;
  readonly rule: number;
  /** Whether it denies: then an answer that takes it not to match allows too much. */
  readonly isDenying: boolean;
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
  const end = {
    pod: destination,
    party: flow.destination,
    address: undefined,
    family: undefined,
    subject: undefined,
    others: [],
  };
  const isOfFlow = (cidr: Cidr): boolean => own.address === undefined || cidrFamily(cidr) === familyOf(own.address);
  const mayFit = ({ peers, ports }: IndexedRule): boolean =>
    (peers ?? []).some((peer) => peer.type === "addresses" && peer.ranges.some(({ cidr }) => isOfFlow(cidr))) &&
    (ports ?? [undefined]).some((port) => port === undefined || fitsPort(port, traffic, end));
  const { decision, passed } = flow[direction];
  const asked = askedTiers(decision);
  const met = [...passed, ...(decision.type === "cluster rule" ? [decision.rule] : [])];
  const rulesOf = (kind: string, policies: readonly (IndexedClusterPolicy | IndexedNetworkPolicy)[]) =>
    policies.flatMap(({ policy, rules }) =>
      rules[direction].map((rule) => ({ key: policy.key, policy: `${kind} ${policy.key}`, rule })),
    );
  const found = [profile.admin, profile.baseline].flatMap((tier, i) => {
    const rules = (i === 0 ? asked.admin : asked.baseline) ? rulesOf("ClusterNetworkPolicy", tier) : [];
    // The rules after one that matches are not asked.
    const last = rules.findIndex(({ key, rule }) => met.some((one) => one.policy === key && one.rule === rule.index));
    return last < 0 ? rules : rules.slice(0, last);
  });
  return [...found, ...(asked.network ? rulesOf("NetworkPolicy", profile.isolating) : [])]
    .filter(({ rule }) => mayFit(rule))
    .map(({ policy, rule: { index: rule, isDenying } }) => ({ host, policy, direction, rule, isDenying }));
}

/** Prints a note on stderr about rules that may deny more than an answer says, as addresses of pods are not known. */
export function tellUnknownDenials({ err }: Pick<Io, "err">, { pods, clusterPolicies }: PolicyIndex): void {
  const unknown = [...pods.values()].filter(({ pod }) => pod.addresses.length === 0 && !isFinished(pod));
  if (unknown.length === 0) return;
  const denying = clusterPolicies.filter(({ rules }) =>
    DIRECTIONS.some((direction) =>
      rules[direction].some(({ isDenying, peers = [] }) => {
        return isDenying && peers.some((peer) => peer.type === "addresses" && !hasEveryAddress(peer, undefined));
      }),
    ),
  );
  for (const { policy } of denying)
    err.write(
      `not known: addresses of ${counted(unknown.length, "pod")}; the rules of ClusterNetworkPolicy ${printable(policy.key)} that deny addresses are taken not to match them\n`,
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
