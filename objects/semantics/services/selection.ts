import { omit, type PortEndpoint } from "./endpoint.ts";
import type { Affinity, HintUse, Omitted, Route, TakenReason } from "./verdict.ts";
import type { ServiceWorld } from "./world.ts";
import type { Endpoint, Service } from "../../model.ts";
import { ZONE_LABEL } from "../../name.ts";
import { keptTimeouts, timeoutFor, usedTimeout } from "../../timeout_choice.ts";
import type { SocketAddress } from "./packet.ts";

/** An endpoint that new connections may go to. */
export interface Selected {
  readonly endpoint: PortEndpoint;
  readonly because: readonly TakenReason[];
}

/** The endpoints for one way into a Service; the caller decides what an empty selection means. */
export interface Selection {
  readonly selected: readonly Selected[];
  readonly hints: HintUse;
  readonly omitted: readonly Omitted[];
}

/** Returns whether there is an endpoint on any node that a connection could go to. */
export function hasUsable(endpoints: readonly PortEndpoint[]): boolean {
  return endpoints.some(({ usability }) => usability !== "unusable");
}

/**
 * Selects, from all endpoints or from those of this node, the ready ones, or if there are none those that still serve
 * while they terminate (TERM-01, TERM-03). Hints only narrow the ready ones of the whole cluster (HINT-05).
 */
export function select(world: ServiceWorld, endpoints: readonly PortEndpoint[], scope: Route["endpoints"]): Selection {
  const hints = hintUse(world, endpoints);
  const inScope = endpoints.filter(({ isLocal }) => scope === "all" || isLocal);
  const wanted = inScope.some(({ usability }) => usability === "ready") ? "ready" : "terminating";
  const selected: Selected[] = [];
  const omitted: Omitted[] = [];
  for (const entry of endpoints) {
    const isNarrowed = scope === "all" && wanted === "ready" && !isHinted(hints, entry.endpoint);
    if (entry.usability === "unusable") omitted.push(omit(entry, "not ready"));
    else if (!inScope.includes(entry)) omitted.push(omit(entry, "not on this node"));
    else if (entry.usability !== wanted) omitted.push(omit(entry, "terminating, and others are ready"));
    else if (isNarrowed) omitted.push(omit(entry, `hinted for other ${hints.type === "node" ? "nodes" : "zones"}`));
    else selected.push({ endpoint: entry, because: reasons(scope, wanted, hints) });
  }
  return { selected, hints, omitted };
}

function reasons(scope: Route["endpoints"], wanted: "ready" | "terminating", hints: HintUse): readonly TakenReason[] {
  const state: TakenReason = { type: wanted === "ready" ? "ready" : "serving while terminating" };
  if (scope === "local") return [state, { type: "on this node" }];
  if (wanted !== "ready" || hints.type === "unused") return [state];
  return [
    state,
    hints.type === "node" ? { type: "node hint", node: hints.node } : { type: "zone hint", zone: hints.zone },
  ];
}

/**
 * Returns the hints that narrow a Service's endpoints: those for nodes if every ready endpoint has one and one names
 * this node, otherwise those for zones on the same terms, otherwise none (TD-01, HINT-03, HINT-04). Endpoints that are
 * not ready do not count.
 */
export function hintUse({ nodes, nodeName }: ServiceWorld, endpoints: readonly PortEndpoint[]): HintUse {
  const ready = endpoints.filter(({ usability }) => usability === "ready").map(({ endpoint }) => endpoint);
  const zone = nodes.find(({ name }) => name === nodeName)?.labels[ZONE_LABEL] || undefined;
  const isHere = (hintsOf: (endpoint: Endpoint) => readonly string[] | undefined, here: string): boolean =>
    ready.every((endpoint) => isSome(hintsOf(endpoint))) && ready.some((one) => hintsOf(one)?.includes(here) === true);
  if (isHere(({ nodeHints }) => nodeHints, nodeName)) return { type: "node", node: nodeName };
  if (zone !== undefined && isHere(({ zoneHints }) => zoneHints, zone)) return { type: "zone", zone };
  return { type: "unused" };
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

/** Timeouts by the Services of a world: thousands of packets are evaluated in one world. */
const known = new WeakMap<readonly Service[], readonly number[]>();

/**
 * Narrows a selection to the endpoint that a client had, if the selection still contains it (SA-01, SA-07, SA-08).
 *
 * @param remembered where the client was sent last within the timeout, by any frontend of the port (SA-05)
 */
export function applyAffinity(
  { services }: Pick<ServiceWorld, "services">,
  { affinitySeconds }: Service,
  selection: Selection,
  remembered: SocketAddress | undefined,
): Selection & { readonly affinity: Affinity } {
  if (affinitySeconds === undefined) return { ...selection, affinity: { type: "none" } };
  const timeoutSeconds = timeoutFor(affinitySeconds, keptOf(services));
  const affinity = { type: "client", timeoutSeconds } as const;
  const kept = selection.selected.find(
    ({ endpoint: { socket } }) => socket.address === remembered?.address && socket.port === remembered.port,
  );
  if (kept === undefined) return { ...selection, affinity };
  const others = selection.selected.filter((one) => one !== kept);
  return {
    hints: selection.hints,
    selected: [{ ...kept, because: [...kept.because, { type: "client's endpoint" }] }],
    omitted: [...selection.omitted, ...others.map((one) => omit(one.endpoint, "client has another endpoint"))],
    affinity,
  };
}

/** Returns the timeouts that clients of these Services can stay for (SA-02). */
function keptOf(services: readonly Service[]): readonly number[] {
  const found = known.get(services);
  if (found !== undefined) return found;
  const kept = keptTimeouts(services.map(usedTimeout).filter((seconds) => seconds !== undefined));
  known.set(services, kept);
  return kept;
}
