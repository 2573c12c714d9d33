import type {
  ClusterRuleMatch,
  EndVerdict,
  PolicyVerdict,
  RuleMatch,
} from "../../../objects/semantics/policies/verdict.ts";
import type { RawCluster, RawClusterRule, RawFlow, RawPort, RawRule } from "./raw_cluster.ts";

/**
 * Returns the features of a flow, of the rule that decides or comes nearest, each once, to check that random clusters
 * contain everything.
 */
export function featuresOf(cluster: RawCluster, flow: RawFlow, verdict: PolicyVerdict): ReadonlySet<string> {
  const features = new Set<string>([verdict.kind, flow.protocol, flow.isIpv6 ? "IPv6" : "IPv4"]);
  if (verdict.kind === "impossible") return features;
  features.add(verdict.source.type).add(verdict.destination.type);
  for (const direction of ["egress", "ingress"] as const) {
    for (const feature of featuresOfEnd(cluster, direction, verdict[direction])) features.add(feature);
  }
  return features;
}

function featuresOfEnd(cluster: RawCluster, direction: "egress" | "ingress", end: EndVerdict): readonly string[] {
  const { decision, passed, nearest, shadow } = end;
  const of = passed.flatMap((rule) => featuresOfClusterRule(cluster, direction, rule));
  if (nearest !== undefined) {
    of.push(...featuresOfRule(cluster, direction, nearest), ...nearest.failed.map(({ type }) => `near miss: ${type}`));
  }
  if (shadow?.wouldDrop === true) of.push("would drop");
  if (shadow?.decision.type === "rule") of.push("shadow allows");
  switch (decision.type) {
    case "exempt":
      return [...of, decision.because];
    case "cluster rule":
      return [...of, decision.type, ...featuresOfClusterRule(cluster, direction, decision.rule)];
    case "rule":
      return [...of, decision.type, ...featuresOfRule(cluster, direction, decision.rule)];
    case "isolated":
    case "default":
      return [...of, decision.type];
  }
}

function featuresOfClusterRule(
  { clusterNetworkPolicies }: RawCluster,
  direction: "egress" | "ingress",
  match: ClusterRuleMatch,
): readonly string[] {
  const { policy, rule, peer, port, tier, action, unreadable } = match;
  if (unreadable !== undefined) return [tier, action, "unreadable"];
  const found = clusterNetworkPolicies.find(({ metadata }) => metadata.name === policy);
  const raw = found?.spec[direction]?.[rule];
  const peers = raw?.to ?? raw?.from ?? [];
  const ofPeer = Object.keys(peers[peer ?? 0] ?? {}).map((name) => `peer ${name}`);
  return port === undefined ? [tier, action, ...ofPeer] : [tier, action, ...ofPeer, clusterPortFeature(raw, port)];
}

function clusterPortFeature(rule: RawClusterRule | undefined, port: number): string {
  return rule?.protocols?.[port]?.destinationNamedPort === undefined ? "cluster number" : "cluster name";
}

function featuresOfRule(
  { networkPolicies }: RawCluster,
  direction: "egress" | "ingress",
  { policy, rule, peer, port }: RuleMatch,
): readonly string[] {
  const found = networkPolicies.find(({ metadata }) => `${metadata.namespace}/${metadata.name}` === policy);
  const raw: RawRule = found?.spec[direction]?.[rule] ?? {};
  const peers = raw.to ?? raw.from ?? raw._from ?? [];
  const ofPeer =
    peer === undefined
      ? "everyone"
      : Object.keys(peers[peer] ?? {})
          .toSorted()
          .join(" and ");
  return [ofPeer, port === undefined ? "any port" : portFeature(raw.ports?.[port] ?? {})];
}

function portFeature({ port, endPort }: RawPort): string {
  if (endPort !== undefined) return "range";
  return port === undefined ? "protocol" : `port ${typeof port}`;
}
