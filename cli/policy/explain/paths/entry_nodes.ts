import type { Address } from "../../../../kernel/ip/address.ts";
import type { Service } from "../../../../objects/model.ts";
import { ownerOf, UNKNOWN_NODE } from "../../../cluster/cluster.ts";
import { type Host, nodeOf } from "../../../cluster/find_end.ts";
import type { ExplainContext } from "../context.ts";

const ZONE_LABEL = "topology.kubernetes.io/zone";
/** Nodes with endpoints differ only in these. */
const MOST_NODES = 16;

/**
 * Returns the nodes on which a packet may first meet the Services' rules: the source's own; that of the destination
 * address; or else those that may treat the packet differently.
 */
export function entryNodes(context: ExplainContext, source: Host, destination: Address): readonly string[] {
  const own = nodeOf(source);
  if (own !== undefined) return [own];
  const owner = ownerOf(context.cluster, destination);
  if (owner?.type === "node") return [owner.key];
  const services = [...context.worlds.objects.services.values()].filter((service) => hasAddress(service, destination));
  return nodesThatMatter(context, services);
}

/** Returns the nodes with endpoints of some Services, and one node without any for each zone. */
export function nodesThatMatter({ cluster, worlds }: ExplainContext, services: readonly Service[]): readonly string[] {
  const keys = new Set(services.map(({ key }) => key));
  const slices = worlds.objects.endpointSlices.filter(({ namespace, serviceName }) =>
    keys.has(`${namespace}/${serviceName}`),
  );
  const hosting = new Set(slices.flatMap(({ endpoints }) => endpoints.flatMap(({ nodeName }) => nodeName ?? [])));
  // Pods without a node yet count as on the node of a sender without one.
  if (hosting.has(UNKNOWN_NODE)) return [UNKNOWN_NODE];
  const others = new Map<string, string>();
  for (const { name, labels } of cluster.store.nodes.values()) {
    const zone = labels[ZONE_LABEL] ?? "";
    if (!hosting.has(name) && !others.has(zone)) others.set(zone, name);
  }
  const all = [...[...hosting].sort().slice(0, MOST_NODES), ...others.values()];
  return all.length === 0 ? [UNKNOWN_NODE] : all;
}

/** Returns whether an address belongs to a Service; false without a Service. */
export function hasAddress(service: Service | undefined, address: Address): boolean {
  if (service === undefined) return false;
  const { clusterIps, externalIps, loadBalancerIngress } = service;
  return (
    clusterIps.includes(address) ||
    externalIps.includes(address) ||
    loadBalancerIngress.some((ingress) => ingress.address === address)
  );
}
