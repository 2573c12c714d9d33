import { type Address, formatAddress } from "../../../kernel/ip/address.ts";
import type { Direction, Traffic } from "./flow.ts";
import { failureText } from "./failure_text.ts";
import type {
  ClusterRuleMatch,
  EndVerdict,
  Exemption,
  ImpossibleFlow,
  EvaluatedFlow,
  NearMiss,
  Party,
  PolicyVerdict,
  RuleMatch,
} from "./verdict.ts";

/** Describes a verdict in lines for `explain`: the traffic and its ends, the result, and the reasons at each end. */
export function describePolicyVerdict(traffic: Traffic, verdict: PolicyVerdict): readonly string[] {
  if (verdict.kind === "impossible") return [`cannot be sent: ${impossibleText(verdict)}`];
  const { source, destination } = verdict;
  const port = traffic.port === undefined ? "" : ` ${traffic.port}`;
  return [
    `${traffic.protocol}${port} from ${partyText(source)} to ${partyText(destination)}: ${verdict.kind}`,
    ...endLines("egress", verdict),
    ...endLines("ingress", verdict),
  ];
}

function impossibleText({ reason }: ImpossibleFlow): string {
  if (reason.type === "no common family") return "the ends have no addresses of one family";
  return `${reason.end} ${reason.pod} has finished, and its address may be another pod's`;
}

function partyText(party: Party): string {
  switch (party.type) {
    case "pod":
      return `pod ${party.key}${inBrackets(party.address)}`;
    case "node": {
      const node = party.name === undefined ? "a node" : `node ${party.name}`;
      return `${node}${inBrackets(party.address)}${party.pod === undefined ? "" : `, of pod ${party.pod}`}`;
    }
    case "outside":
      return `${formatAddress(party.address)} outside of the cluster`;
  }
}

function inBrackets(address: Address | undefined): string {
  return address === undefined ? "" : ` (${formatAddress(address)})`;
}

function endLines(direction: Direction, evaluated: EvaluatedFlow): readonly string[] {
  const end = evaluated[direction];
  const party = direction === "egress" ? evaluated.source : evaluated.destination;
  const name = party.type === "pod" ? ` of ${party.key}` : "";
  const passed = end.passed.map((rule) => `  passed on by ${clusterRuleText(rule, direction)}`);
  const isolated = end.isolatedBy.length === 0 ? [] : [`  isolated by ${end.isolatedBy.join(", ")}`];
  const verdict = end.isAllowed ? "allowed" : "denied";
  return [
    `${direction}${name}: ${verdict}, ${decisionText(end, direction)}`,
    ...passed,
    ...isolated,
    ...nearestLines(end.nearest, direction),
    ...shadowLines(end, direction),
  ];
}

function decisionText({ decision }: EndVerdict, direction: Direction): string {
  switch (decision.type) {
    case "exempt":
      return exemptionTexts[decision.because];
    case "cluster rule":
      return `${decision.rule.action} of ${clusterRuleText(decision.rule, direction)}`;
    case "rule":
      return `by ${ruleText(decision.rule, direction)}`;
    case "isolated":
      return "no rule allows it";
    case "default":
      return "no policy has a say";
  }
}

const exemptionTexts: Readonly<Record<Exemption, string>> = {
  "no pod": "policies are for pods with addresses of their own",
  "own node": "a pod and its own node are never kept apart",
  itself: "a pod is never kept from itself",
  "node-local DNS": "NetworkPolicies keep no pod from the node's own DNS",
  "ICMP error": "errors belong to the flow they are about",
};

/** Describes a rule of a ClusterNetworkPolicy: its place, its name, and why it fails closed if it does. */
export function clusterRuleText(rule: ClusterRuleMatch, direction: Direction): string {
  const name = rule.name === undefined ? "" : ` ${JSON.stringify(rule.name)}`;
  const unreadable = rule.unreadable === undefined ? "" : `, which fails closed: ${rule.unreadable}`;
  const tied = rule.tiedWith.length === 0 ? "" : `; undefined: ${rule.tiedWith.join(", ")} of the same priority differ`;
  const place = `${rule.tier} tier, priority ${rule.priority}`;
  return `ClusterNetworkPolicy ${placeText(rule, direction, "protocols")}${name} (${place})${unreadable}${tied}`;
}

function ruleText(rule: RuleMatch, direction: Direction): string {
  return `NetworkPolicy ${placeText(rule, direction, "ports")}`;
}

/** Returns places in the object as it was written: `shop/web egress[0], to[1], ports[0]`. */
function placeText({ policy, rule, peer, port }: RuleMatch, direction: Direction, ports: string): string {
  const peers = direction === "egress" ? "to" : "from";
  const parts = [
    peer === undefined ? undefined : `${peers}[${peer}]`,
    port === undefined ? undefined : `${ports}[${port}]`,
  ];
  return [`${policy} ${direction}[${rule}]`, ...parts.filter((part) => part !== undefined)].join(", ");
}

function shadowLines({ shadow, isAllowed }: EndVerdict, direction: Direction): readonly string[] {
  if (shadow === undefined) return [];
  const { wouldDrop, decision, policies, nearest } = shadow;
  if (wouldDrop) return [`  shadow: ${policies.join(", ")} would deny it`, ...nearestLines(nearest, direction)];
  if (isAllowed || decision.type === "isolated") return [];
  return [`  shadow: would be allowed by ${ruleText(decision.rule, direction)}`];
}

function nearestLines(nearest: NearMiss | undefined, direction: Direction): readonly string[] {
  if (nearest === undefined) return [];
  return [`  nearest: ${nearMissText(nearest, direction)}`];
}

/** Describes the place of the nearest rule, and the parts that do not match. */
export function nearMissText(nearest: NearMiss, direction: Direction): string {
  return `${placeText(nearest, direction, "ports")}, but ${nearest.failed.map(failureText).join("; ")}`;
}
