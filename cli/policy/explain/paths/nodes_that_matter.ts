import type { Service } from "../../../../objects/model.ts";
import { type End, type Host, hostAt, nodeOf } from "../../../cluster/find_end.ts";
import type { ExplainContext, NodesThatMatter } from "../context.ts";

/**
 * Returns the nodes on which a pod's location makes a difference towards an end. These are the nodes that are part of
 * the end, directly or by pods of the host's network, since policies never separate a pod from its node (POL-07); for a
 * Service that chooses endpoints by node, all nodes.
 */
export function nodesThatMatterTo(context: ExplainContext, end: End): NodesThatMatter {
  return end.type === "service" ? ofService(context, end.service) : nodesOf(end.hosts);
}

function ofService({ cluster, worlds }: ExplainContext, service: Service): NodesThatMatter {
  const policies = [service.internalTrafficPolicy, service.externalTrafficPolicy];
  const slices = worlds.objects.endpointSlices.filter(
    ({ namespace, serviceName }) => namespace === service.namespace && serviceName === service.name,
  );
  const endpoints = slices.flatMap((slice) => slice.endpoints);
  const isNarrowed = endpoints.some(({ zoneHints, nodeHints }) => zoneHints !== undefined || nodeHints !== undefined);
  if (policies.includes("Local") || isNarrowed) return "all";
  return nodesOf(endpoints.map(({ address }) => hostAt(cluster, address)));
}

function nodesOf(hosts: readonly Host[]): ReadonlySet<string> {
  const isNode = (host: Host): boolean => host.type === "node" || (host.type === "pod" && host.pod.hostNetwork);
  return new Set(hosts.filter(isNode).flatMap((host) => nodeOf(host) ?? []));
}
