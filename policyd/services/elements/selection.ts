import type { CompileContext } from "../rules/context.ts";
import type { PortEndpoint } from "./endpoints.ts";

/** The endpoints that new connections may go to, by scope. */
export interface Selection {
  /** Endpoints anywhere in the cluster, narrowed by hints. */
  readonly all: readonly PortEndpoint[];
  /** Endpoints on this node. */
  readonly local: readonly PortEndpoint[];
}

/**
 * Returns the endpoints that are used, separately for the whole cluster and for this node: the ready ones, or if there
 * are none, those that still serve while they terminate (TERM-01, TERM-03). Hints only narrow the ready ones of the
 * whole cluster (HINT-05).
 */
export function select(usable: readonly PortEndpoint[], context: CompileContext): Selection {
  const ready = usable.filter(isReady);
  const local = usable.filter(({ isLocal }) => isLocal);
  const readyLocal = local.filter(isReady);
  return {
    all: ready.length > 0 ? narrowed(ready, context) : usable,
    local: readyLocal.length > 0 ? readyLocal : local,
  };
}

function isReady({ state }: PortEndpoint): boolean {
  return state === "ready";
}

/**
 * Narrows ready endpoints by hints. Hints for nodes count if every ready endpoint has some and one names this node,
 * otherwise those for zones on the same terms; otherwise all endpoints are used (TD-01, HINT-02 to HINT-04).
 */
function narrowed(ready: readonly PortEndpoint[], { nodeName, zone }: CompileContext): readonly PortEndpoint[] {
  return hinted(ready, nodeHintsOf, nodeName) ?? hinted(ready, zoneHintsOf, zone) ?? ready;
}

function hinted(
  ready: readonly PortEndpoint[],
  hintsOf: (endpoint: PortEndpoint) => readonly string[],
  here: string | undefined,
): readonly PortEndpoint[] | undefined {
  if (here === undefined || !ready.every((endpoint) => hintsOf(endpoint).length > 0)) return undefined;
  const those = ready.filter((endpoint) => hintsOf(endpoint).includes(here));
  return those.length === 0 ? undefined : those;
}

function nodeHintsOf({ nodeHints }: PortEndpoint): readonly string[] {
  return nodeHints;
}

function zoneHintsOf({ zoneHints }: PortEndpoint): readonly string[] {
  return zoneHints;
}
