import type { Pod } from "../../../../objects/model.ts";
import type { PolicyIndex } from "../../../../objects/semantics/policies/policy_index.ts";
import type { DirectionProfile } from "../../../../objects/semantics/policies/profile.ts";
import { type Dns, dnsOf, isCutOff } from "../../cluster_dns.ts";
import { namesIn } from "../../domain_names.ts";
import { isolates, remark } from "../context.ts";
import type { LintRule } from "../finding.ts";
import { namesText } from "../selector_text.ts";

export const dnsForgotten: LintRule = {
  id: "dns-forgotten",
  severity: "warning",
  summary: "Pods may send to others, and not to the cluster's DNS.",
  reason: "Pods without DNS fail at the first name, which looks like a broken network.",
  judgesBy: ["policies", "pods", "namespaces"],
  check: (context) => {
    // Pods always reach the node's own DNS (POL-72).
    if (context.settings.nodeLocalDNS.length > 0) return [];
    const dns = dnsOf(context);
    const { index } = dns;
    const [{ pod: server, port }] = dns.servers;
    const reported = new Set<DirectionProfile>();
    const where = `namespaces with kubernetes.io/metadata.name=${server.namespace}`;
    const fix = `add an egress rule to ${where} and ports ${port}/UDP and ${port}/TCP`;
    const closed = context.networkPolicies.flatMap(({ manifest, policy, pods }) => {
      if (!isolates(policy, "egress") || policy.egress.length === 0) return [];
      const cut = pods.filter((pod) => isWithoutDns(index, pod, dns, reported));
      if (cut.length === 0) return [];
      for (const pod of cut) reported.add(profileOf(index, pod));
      const names = namesText(cut.map(({ key }) => key));
      const message = `isolates egress without port 53 to the cluster's DNS: ${names}`;
      return [remark(manifest, ["spec", "egress"], message, fix)];
    });
    const named = context.clusterPolicies.flatMap(({ manifest, policy, pods }) => {
      const cut = namesIn([policy]).length === 0 ? [] : pods.filter((pod) => isCutOff(dns, pod));
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
function isWithoutDns(index: PolicyIndex, pod: Pod, dns: Dns, reported: ReadonlySet<DirectionProfile>): boolean {
  const profile = profileOf(index, pod);
  if (profile.isolating.length === 0 || reported.has(profile)) return false;
  return isCutOff(dns, pod);
}
