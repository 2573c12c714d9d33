import { formatAddress } from "../../../../kernel/ip/address.ts";
import { cidrContains, formatCidr, isHostCidr } from "../../../../kernel/ip/cidr.ts";
import { ENFORCE_SOURCE_RANGES, type Service } from "../../../../objects/model.ts";
import { type LintContext, remark } from "../context.ts";
import { asInfo, type LintRule } from "../finding.ts";
import { at } from "../../../input/raw.ts";
import { namesText } from "../selector_text.ts";

export const externalIps: LintRule = {
  id: "external-ips",
  severity: "warning",
  summary:
    "A Service has externalIPs, by which whoever may write Services takes traffic to any address (CVE-2020-8554).",
  reason:
    "refuseExternalIPs closes it. A node leaves only ports of its own addresses to programs and host ports that had them before.",
  check: ({ services, settings }) =>
    services.flatMap(({ manifest, service }) => {
      if (settings.refuseExternalIps || service.externalIps.length === 0 || service.type === "ExternalName") return [];
      const message = `takes traffic to ${namesText(service.externalIps.map(formatAddress))} on every node`;
      const fix = "use type LoadBalancer; refuseExternalIPs in policyd's configuration passes them over";
      return [remark(manifest, ["spec", "externalIPs"], message, fix)];
    }),
};

export const nodesReachable: LintRule = {
  id: "nodes-reachable",
  severity: "warning",
  summary: "loadBalancerSourceRanges do not hold for NodePorts and externalIPs (LB-21).",
  reason: "Clients that the load balancer refuses reach the same pods by the nodes' ports.",
  check: ({ services, settings }) =>
    services.flatMap(({ manifest, service }) => {
      const isEnforced = service.annotations[ENFORCE_SOURCE_RANGES] === "true";
      if (service.loadBalancerSourceRanges === undefined || isEnforced) return [];
      const hasExternalIps = service.externalIps.length > 0 && !settings.refuseExternalIps;
      const ways = [
        ...(hasNodePorts(service, manifest.source) ? ["NodePorts"] : []),
        ...(hasExternalIps ? ["externalIPs"] : []),
      ];
      if (ways.length === 0) return [];
      const message = `everyone who reaches a node gets past loadBalancerSourceRanges by its ${ways.join(" and ")}`;
      const without = hasExternalIps ? "do without these" : "set allocateLoadBalancerNodePorts: false";
      const fix = `${without}, or set the annotation ${ENFORCE_SOURCE_RANGES}: "true"`;
      return [remark(manifest, ["spec", "loadBalancerSourceRanges"], message, fix)];
    }),
};

/** Returns whether a load balancer's Service gets node ports, which the API server assigns unless told otherwise. */
function hasNodePorts({ type, ports }: Service, source: unknown): boolean {
  if (type !== "LoadBalancer" || ports.length === 0) return false;
  if (ports.some(({ nodePort }) => nodePort !== undefined)) return true;
  return at(source, "spec", "allocateLoadBalancerNodePorts") !== false;
}

export const topologyKeys: LintRule = {
  id: "topology-keys",
  severity: "warning",
  summary: "topologyKeys is gone from the API and ignored (TK-01).",
  reason: "Its successor is trafficDistribution.",
  check: ({ services }) =>
    services.flatMap(({ manifest }) => {
      if (at(manifest.source, "spec", "topologyKeys") === undefined) return [];
      const fix = "use trafficDistribution: PreferSameZone or PreferSameNode";
      return [remark(manifest, ["spec", "topologyKeys"], "topologyKeys is ignored", fix)];
    }),
};

export const serviceAddress: LintRule = {
  id: "service-address",
  severity: "warning",
  summary:
    "An egress ipBlock is for a Service's address; rules see packets after that, with the address of a pod (POL-27).",
  reason: "The rule does not allow these Services. It is info where the ipBlock also has other addresses.",
  check: (context) =>
    context.networkSites.flatMap(({ linted, direction, rule, path }) => {
      if (direction !== "egress") return [];
      return (rule.peers ?? []).flatMap((peer) => {
        if (peer.type !== "ipBlock" || hasOwners(context, peer.cidr)) return [];
        const met = context.services.filter(({ service }) =>
          service.clusterIps.some((one) => cidrContains(peer.cidr, one)),
        );
        if (met.length === 0) return [];
        const names = namesText(met.map(({ service }) => service.key));
        const message = `${formatCidr(peer.cidr)} has the addresses of Services (${names}), which no packet has any more when it is judged`;
        const fix = "select the pods behind the Service by their labels";
        return [asInfo(remark(linted.manifest, [...path, "to", peer.index], message, fix), !isHostCidr(peer.cidr))];
      });
    }),
};

/** Returns whether pods or nodes have addresses in the prefix, so that it is not only for Services. */
function hasOwners({ index }: LintContext, cidr: Parameters<typeof cidrContains>[0]): boolean {
  return cidr.prefixLength === 0 || [...index.owners.keys()].some((address) => cidrContains(cidr, address));
}
