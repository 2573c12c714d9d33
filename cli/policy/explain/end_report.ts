import type { Direction } from "../../../objects/semantics/policies/flow.ts";
import { failureText } from "../../../objects/semantics/policies/print.ts";
import type {
  ClusterRuleMatch,
  Decision,
  EndVerdict,
  Failure,
  NearMiss,
  RuleMatch,
  ShadowVerdict,
} from "../../../objects/semantics/policies/verdict.ts";
import type { FieldPath } from "../../../objects/yaml/documents.ts";
import type { Manifest } from "../../input/manifests.ts";
import { ruleText } from "../../input/place.ts";
import type {
  DecisionReport,
  EndReport,
  NearestReport,
  Place,
  PolicyReport,
  RuleReport,
  ShadowReport,
} from "./explanation.ts";

type Manifests = ReadonlyMap<string, Manifest>;
type PolicyKind = "NetworkPolicy" | "ClusterNetworkPolicy";

/** Returns the verdict of one end's policies, with the files and lines of the rules. */
export function endReport(
  manifests: Manifests,
  direction: Direction,
  { isAllowed, decision, passed, isolatedBy, nearest, shadow }: EndVerdict,
  judgedAs: string | null,
): EndReport {
  return {
    allowed: isAllowed,
    judgedAs,
    decision: decisionReport(manifests, direction, decision),
    passed: passed.map((rule) => clusterRuleReport(manifests, direction, rule)),
    isolatedBy: isolatedBy.map((key) => policyReport(manifests, `NetworkPolicy ${key}`)),
    nearest: nearest === undefined ? null : nearestReport(manifests, direction, nearest),
    shadow: shadow === undefined ? null : shadowReport(manifests, direction, shadow),
  };
}

function shadowReport(
  manifests: Manifests,
  direction: Direction,
  { wouldDrop, decision, policies, nearest }: ShadowVerdict,
): ShadowReport {
  return {
    allowed: decision.type === "rule",
    wouldDrop,
    policies: policies.map((key) => policyReport(manifests, `NetworkPolicy ${key}`)),
    rule: decision.type === "rule" ? ruleReport(manifests, direction, "NetworkPolicy", decision.rule) : null,
    nearest: nearest === undefined ? null : nearestReport(manifests, direction, nearest),
  };
}

/** Returns a policy with its file and line. */
function policyReport(manifests: Manifests, policy: string, path: FieldPath = []): PolicyReport {
  return { policy, ...placeOf(manifests, policy, path) };
}

function decisionReport(manifests: Manifests, direction: Direction, decision: Decision): DecisionReport {
  if (decision.type === "rule") {
    return { type: "rule", rule: ruleReport(manifests, direction, "NetworkPolicy", decision.rule) };
  }
  if (decision.type === "cluster rule") {
    return { type: "rule", rule: clusterRuleReport(manifests, direction, decision.rule) };
  }
  return decision;
}

function ruleReport(manifests: Manifests, direction: Direction, kind: PolicyKind, match: RuleMatch): RuleReport {
  const policy = `${kind} ${match.policy}`;
  const path = pathText(manifests.get(policy), direction, kind, match);
  return { policy, path, ...placeOf(manifests, policy, fieldOf(direction, match)) };
}

function clusterRuleReport(manifests: Manifests, direction: Direction, rule: ClusterRuleMatch): RuleReport {
  const { tier, priority, action, name, unreadable, tiedWith } = rule;
  return {
    ...ruleReport(manifests, direction, "ClusterNetworkPolicy", rule),
    tier,
    priority,
    action,
    ...(name === undefined ? {} : { name }),
    ...(unreadable === undefined ? {} : { unreadable }),
    ...(tiedWith.length === 0 ? {} : { tiedWith }),
  };
}

const OF_PORTS: ReadonlySet<Failure["type"]> = new Set([
  "protocol",
  "port",
  "named port",
  "named port of no pod",
  "ICMP has no ports",
  "no valid port",
]);

/** Returns the nearest rule, with the line of what does not match: the peer or, where that matches, the port. */
function nearestReport(manifests: Manifests, direction: Direction, miss: NearMiss): NearestReport {
  const rule = ["spec", direction, miss.rule] as const;
  const isAboutPort = miss.failed.every(({ type }) => OF_PORTS.has(type));
  const [list, index] = isAboutPort ? (["ports", miss.port] as const) : ([peersKey(direction), miss.peer] as const);
  const policy = `NetworkPolicy ${miss.policy}`;
  const path: FieldPath = index === undefined ? rule : [...rule, list, index];
  return {
    ...ruleReport(manifests, direction, "NetworkPolicy", miss),
    ...placeOf(manifests, policy, path),
    failed: miss.failed.map((failure) => ({ type: failure.type, text: failureText(failure) })),
  };
}

/** Returns the path to the matching peer, if any: among twenty peers the line of the rule would not help. */
function fieldOf(direction: Direction, { rule, peer }: RuleMatch): FieldPath {
  const path = ["spec", direction, rule] as const;
  return peer === undefined ? path : [...path, peersKey(direction), peer];
}

/** Returns the places in the object as written: `egress[0].to[1], ports[0]`, or the annotation that adds the rule. */
function pathText(
  manifest: Manifest | undefined,
  direction: Direction,
  kind: PolicyKind,
  { rule, peer, port }: RuleMatch,
): string {
  const ofRule = ruleText(manifest?.object, direction, rule);
  if (!ofRule.startsWith(direction)) return ofRule;
  const ports = kind === "NetworkPolicy" ? "ports" : "protocols";
  const ofPeer = peer === undefined ? "" : `.${peersKey(direction)}[${peer}]`;
  const ofPort = port === undefined ? "" : `${ofPeer === "" ? "." : ", "}${ports}[${port}]`;
  return `${ofRule}${ofPeer}${ofPort}`;
}

function peersKey(direction: Direction): "to" | "from" {
  return direction === "egress" ? "to" : "from";
}

function placeOf(manifests: Manifests, policy: string, path: FieldPath): Partial<Place> {
  const manifest = manifests.get(policy);
  return manifest === undefined ? {} : { file: manifest.file, line: manifest.lineOf(path) };
}
