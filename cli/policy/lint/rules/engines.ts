import { cidrContains, cidrFamily, formatCidr } from "../../../../kernel/ip/cidr.ts";
import type { FieldPath } from "../../../../objects/yaml/documents.ts";
import { cidrCovers } from "../coverage.ts";
import { type LintContext, type NetworkSite, remark } from "../context.ts";
import type { LintRule } from "../finding.ts";

/** Returns how engines differ in a point that the API leaves open; undefined where a rule has none. */
type Corner = (context: LintContext, site: NetworkSite) => string | undefined;

/** In the order of the report. */
const CORNERS: readonly Corner[] = [podAddresses, clientAddress, wholeIpv6, namedEgress, sctp, icmp];

export const enginesDiffer: LintRule = {
  id: "engines-differ",
  severity: "info",
  reason: "The same policy may mean something else with another network add-on.",
  isOffByDefault: true,
  summary: "The API leaves open what a rule means, and engines differ; the finding says what Drawbridge does.",
  check: (context) => [
    ...[...Map.groupBy(context.networkSites, ({ linted }) => linted)].flatMap(([{ manifest }, sites]) => {
      // A message that applies to several rules of a policy is reported for the first.
      const reported = new Map<string, FieldPath>();
      for (const site of sites) {
        for (const corner of CORNERS) {
          const message = corner(context, site);
          if (message !== undefined && !reported.has(message)) reported.set(message, site.path);
        }
      }
      const fix = "nothing here; test it where another engine is to enforce it";
      return [...reported].map(([message, path]) => remark(manifest, path, message, fix));
    }),
    ...context.clusterPolicies.map(({ manifest }) =>
      remark(
        manifest,
        [],
        "engines differ: Cilium and kube-router know no ClusterNetworkPolicy",
        "keep NetworkPolicies that hold without it where one of them is to enforce it",
      ),
    ),
  ],
};

function podAddresses({ index, nodes }: LintContext, { rule }: NetworkSite): string | undefined {
  for (const peer of rule.peers ?? []) {
    if (peer.type !== "ipBlock") continue;
    const { cidr } = peer;
    const hasRange = nodes.some(({ podCidrs }) => podCidrs.some((range) => cidrCovers(cidr, range)));
    if (!hasRange && ![...index.owners.keys()].some((address) => cidrContains(cidr, address))) continue;
    return `engines differ: ${formatCidr(cidr)} has addresses of pods or nodes; they match here, in Cilium they do not`;
  }
  return undefined;
}

function clientAddress({ services }: LintContext, { linted, direction, rule }: NetworkSite): string | undefined {
  if (direction !== "ingress" || rule.peers?.some(({ type }) => type === "ipBlock") !== true) return undefined;
  const open = services.find(
    ({ service, pods }) =>
      (service.type === "NodePort" || service.type === "LoadBalancer") &&
      service.externalTrafficPolicy === "Cluster" &&
      pods.some((pod) => linted.pods.includes(pod)),
  );
  if (open === undefined) return undefined;
  return `engines differ: clients of Service ${open.service.key} may come with a node's address (externalTrafficPolicy Cluster), which an ipBlock does not have`;
}

function wholeIpv6(_: LintContext, { rule }: NetworkSite): string | undefined {
  const isWhole = rule.peers?.some(
    (peer) => peer.type === "ipBlock" && peer.cidr.prefixLength === 0 && cidrFamily(peer.cidr) === 6,
  );
  return isWhole === true
    ? "engines differ: ::/0 is every IPv6 address here; in kube-router it is only 2000::/3 and fd00::/8"
    : undefined;
}

function namedEgress(_: LintContext, { direction, rule }: NetworkSite): string | undefined {
  const hasName = rule.ports?.some(({ port }) => typeof port === "string") === true;
  if (direction !== "egress" || !hasName) return undefined;
  return rule.peers === undefined
    ? "engines differ: a port's name is looked up in each destination pod here; kube-router looks at pods of its own namespace and then lets everyone be reached at that number"
    : "engines differ: a port's name nobody has allows nothing here; in kube-router it allows all ports";
}

function sctp(_: LintContext, { rule }: NetworkSite): string | undefined {
  return rule.ports?.some(({ protocol }) => protocol === "SCTP") === true
    ? "engines differ: SCTP is policed here; in Cilium it has to be switched on"
    : undefined;
}

function icmp(_: LintContext, { rule }: NetworkSite): string | undefined {
  if (rule.peers === undefined || rule.ports !== undefined) return undefined;
  return "engines differ: a rule without ports allows ICMP here; kube-router lets echo requests through without a rule";
}
