import type { Endpoint } from "../../model.ts";
import type { PortEndpoint } from "./endpoint.ts";
import type { HintUse } from "./verdict.ts";
import type { ServiceWorld } from "./world.ts";

const ZONE_LABEL = "topology.kubernetes.io/zone";

/**
 * Returns the hints that narrow a Service's endpoints: those for nodes if every ready endpoint has one and one names
 * this node, otherwise those for zones on the same terms, otherwise none (TD-01, HINT-03, HINT-04). Endpoints that are
 * not ready do not count.
 */
export function hintUse({ nodes, nodeName }: ServiceWorld, endpoints: readonly PortEndpoint[]): HintUse {
  const ready = endpoints.filter(({ usability }) => usability === "ready").map(({ endpoint }) => endpoint);
  if (ready.length === 0) return { type: "unused", because: "no ready endpoint" };
  const zone = nodes.find(({ name }) => name === nodeName)?.labels[ZONE_LABEL] || undefined;
  const haveNodes = ready.every(({ nodeHints }) => isSome(nodeHints));
  const haveZones = ready.every(({ zoneHints }) => isSome(zoneHints));
  if (haveNodes && ready.some(({ nodeHints }) => nodeHints?.includes(nodeName) === true)) {
    return { type: "node", node: nodeName };
  }
  if (zone !== undefined && haveZones && ready.some(({ zoneHints }) => zoneHints?.includes(zone) === true)) {
    return { type: "zone", zone };
  }
  if (!haveNodes && !haveZones) return { type: "unused", because: "not every ready endpoint has one" };
  const isZoneMissing = zone === undefined && haveZones;
  return { type: "unused", because: isZoneMissing ? "no zone of this node" : "none for this node or zone" };
}

/** Returns whether the hints in use allow this node to use an endpoint. */
export function isHinted(hints: HintUse, { nodeHints, zoneHints }: Endpoint): boolean {
  if (hints.type === "node") return nodeHints?.includes(hints.node) === true;
  if (hints.type === "zone") return zoneHints?.includes(hints.zone) === true;
  return true;
}

function isSome(names: readonly string[] | undefined): boolean {
  return names !== undefined && names.length > 0;
}
