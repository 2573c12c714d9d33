import type { CompileContext } from "./context.ts";
import type { PortEndpoint } from "./endpoints.ts";

/** The endpoints new connections may go to, by the way they come. */
export interface Selection {
  /** Anywhere in the cluster, narrowed by hints. */
  readonly all: readonly PortEndpoint[];
  /** On this node. */
  readonly local: readonly PortEndpoint[];
}

/**
 * Which endpoints are used, for the whole cluster and for this node each by itself: the ready ones, and only where there
 * is none those that serve while they terminate (TERM-01, TERM-03). Hints narrow the ready ones of the whole cluster
 * only (HINT-05).
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
 * Hints for nodes count if every ready endpoint has some and one names this node, else those for zones on the same
 * terms; otherwise all are used (TD-01, HINT-02 to HINT-04).
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
