import type { ClusterObject, NetworkPolicy, Pod, PolicyPort } from "../../../../objects/model.ts";
import { DNS_PORT } from "../../../../objects/semantics/policies/decide.ts";
import { evaluatePolicy } from "../../../../objects/semantics/policies/evaluate.ts";
import { buildPolicyIndex, type PolicyIndex } from "../../../../objects/semantics/policies/policy_index.ts";
import type { DirectionProfile } from "../../../../objects/semantics/policies/profile.ts";
import { storeOf } from "../../../cluster/policy_objects.ts";
import { type DnsServer, dnsServersIn, STAND_INS } from "../../cluster_dns.ts";
import { namesIn } from "../../domain_names.ts";
import { isolates, type LintContext, remark } from "../context.ts";
import type { LintRule } from "../finding.ts";
import { namesText } from "../selector_text.ts";

export const dnsForgotten: LintRule = {
  id: "dns-forgotten",
  severity: "warning",
  summary: "Pods may send to others, and not to the cluster's DNS: names do not resolve for them.",
  reason:
    "Pods without DNS fail at the first name, which looks like a broken network. Where the files do not have the DNS it is taken to be in kube-system at port 53, or in openshift-dns at port 5353.",
  judgesBy: ["policies", "pods", "namespaces"],
  check: (context) => {
    // Pods always reach the node's own DNS (POL-72).
    if (context.settings.nodeLocalDNS.length > 0) return [];
    const { index, servers } = dnsOf(context);
    const [{ pod: server, port }] = servers;
    const reported = new Set<DirectionProfile>();
    const where = `namespaces with kubernetes.io/metadata.name=${server.namespace}`;
    const fix = `add an egress rule to ${where} and ports ${port}/UDP and ${port}/TCP`;
    const closed = context.networkPolicies.flatMap(({ manifest, policy, pods }) => {
      if (!isolates(policy, "egress") || policy.egress.length === 0) return [];
      const cut = pods.filter((pod) => isWithoutDns(index, pod, servers, reported));
      if (cut.length === 0) return [];
      for (const pod of cut) reported.add(profileOf(index, pod));
      const names = namesText(cut.map(({ key }) => key));
      const message = `isolates egress without port 53 to the cluster's DNS: ${names}`;
      return [remark(manifest, ["spec", "egress"], message, fix)];
    });
    const named = context.clusterPolicies.flatMap(({ manifest, policy, pods }) => {
      const cut = namesIn([policy]).length === 0 ? [] : pods.filter((pod) => isCutOff(index, pod, servers));
      if (cut.length === 0) return [];
      const message = `has domain names for pods that may not ask the cluster's DNS: ${namesText(cut.map(({ key }) => key))}`;
      return [remark(manifest, ["spec", "egress"], message, fix)];
    });
    return [...closed, ...named];
  },
};

function profileOf(index: PolicyIndex, { key }: Pod): DirectionProfile {
  return index.pods.get(key)?.subject?.profile.egress ?? { admin: [], isolating: [], shadow: [], baseline: [] };
}

/** Returns whether a pod has egress rules, none of which lets it query DNS. */
function isWithoutDns(
  index: PolicyIndex,
  pod: Pod,
  servers: readonly DnsServer[],
  reported: ReadonlySet<DirectionProfile>,
): boolean {
  const profile = profileOf(index, pod);
  if (profile.isolating.length === 0 || reported.has(profile)) return false;
  return isCutOff(index, pod, servers);
}

/** Returns whether a pod may query none of some DNS servers, nor perhaps another one by its address. */
function isCutOff(index: PolicyIndex, pod: Pod, servers: readonly DnsServer[]): boolean {
  const { isolating } = profileOf(index, pod);
  return !isolating.some(({ policy }) => allowsByAddress(policy)) && !mayAsk(index, pod, servers);
}

/** Returns whether a pod may query one of some DNS servers, as far as its own policies go. */
function mayAsk(index: PolicyIndex, pod: Pod, servers: readonly DnsServer[]): boolean {
  return servers.some(({ pod: { key }, port }) => {
    const ends = { source: { type: "pod", key: pod.key }, destination: { type: "pod", key } } as const;
    const verdict = evaluatePolicy(index, { ...ends, protocol: "UDP", port });
    return verdict.kind === "impossible" || verdict.egress.isAllowed;
  });
}

/** Returns whether a rule opens port 53 to addresses: a resolver outside or on each node is for the user to know. */
function allowsByAddress({ egress }: NetworkPolicy): boolean {
  return egress.some(
    ({ peers, ports }) => peers?.some(({ type }) => type === "ipBlock") === true && (ports?.some(isDns) ?? true),
  );
}

function isDns({ protocol, port, endPort }: PolicyPort): boolean {
  if (protocol !== "UDP" || typeof port === "string") return false;
  return port === undefined || (port <= DNS_PORT && DNS_PORT <= (endPort ?? port));
}

interface Dns {
  readonly index: PolicyIndex;
  /** Those of the objects or, where they have none, stand-ins, of which the first is the usual one. */
  readonly servers: readonly [DnsServer, ...DnsServer[]];
}

function dnsOf({ index, store }: LintContext): Dns {
  const [first, ...more] = dnsServersIn(store.pods.values(), store.services);
  if (first !== undefined) return { index, servers: [first, ...more] };
  const standIns = new Set(STAND_INS.map(({ pod }) => pod.key));
  const others = [...store.pods.values()].filter(({ key }) => !standIns.has(key));
  const rest = [store.namespaces, store.nodes, store.networkPolicies, store.clusterNetworkPolicies];
  const objects = rest.flatMap((map): ClusterObject[] => [...map.values()]);
  const whole = [...objects, ...others, ...STAND_INS.map(({ pod }) => pod)];
  return { index: buildPolicyIndex(storeOf(whole)), servers: STAND_INS };
}
