import { type Address, familyOf } from "../../../../kernel/ip/address.ts";
import type { Endpoint, Service } from "../../../../objects/model.ts";
import { ownerOf, UNKNOWN_NODE } from "../../../cluster/cluster.ts";
import { hasAddress, type Host, hostAt, nodeOf } from "../../../cluster/find_end.ts";
import { type ExplainContext, MOST_HOSTS } from "../context.ts";
import { serviceKeyOf } from "../../../../objects/service_key.ts";

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

/**
 * Returns the nodes with endpoints of some Services or, of many, one of each kind by its endpoints; and one node without
 * any of each kind.
 */
export function nodesThatMatter(context: ExplainContext, services: readonly Service[]): readonly string[] {
  const { cluster, worlds } = context;
  const keys = new Set(services.map(({ key }) => key));
  const slices = worlds.objects.endpointSlices.filter((slice) => keys.has(serviceKeyOf(slice) ?? ""));
  const endpoints = slices.flatMap((slice) => slice.endpoints.map((one) => ({ ...one, ports: slice.ports })));
  const hosting = Map.groupBy(endpoints, ({ nodeName }) => nodeName);
  hosting.delete(undefined);
  // Pods without a node yet count as on the node of a sender without one.
  if (hosting.has(UNKNOWN_NODE)) return [UNKNOWN_NODE];
  const isMany = hosting.size > MOST_HOSTS;
  const kindOfEndpoint = ({ address, ...state }: Endpoint): string =>
    `${familyOf(address)} ${context.kindOf(hostAt(cluster, address))} ${JSON.stringify({ ...state, nodeName: "", podKey: "" })}`;
  const chosen = new Map<string, string>();
  for (const node of [...cluster.store.nodes.values()].toSorted((a, b) => (a.name < b.name ? -1 : 1))) {
    const here = hosting.get(node.name);
    const kind = here === undefined || isMany ? context.nodeKindOf(node) : node.name;
    const key = JSON.stringify([
      kind,
      here && isMany ? [...new Set(here.map(kindOfEndpoint))].sort() : here !== undefined,
    ]);
    if (!chosen.has(key)) chosen.set(key, node.name);
  }
  const all = [...chosen.values()];
  const isHosting = (name: string): boolean => hosting.has(name);
  const ordered = [...all.filter(isHosting), ...all.filter((name) => !isHosting(name))];
  return ordered.length === 0 ? [UNKNOWN_NODE] : ordered;
}
