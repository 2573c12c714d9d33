import type { Element } from "../../../kernel/nftables/model/object.ts";
import type { SetDifference } from "../../ruleset/difference.ts";
import { type FrontendId, frontendId } from "../elements/arbitration.ts";
import { endpointMap, restMap } from "../rules/endpoint_maps.ts";
import { FRONTEND_KINDS, type FrontendKind, type RuleFamily, SCOPES } from "../rules/frontend_kind.ts";
import type { Frontend } from "../../../objects/socket_refusal.ts";
import { drawnModuli, EXACT_MODULI } from "../rules/endpoint_draw.ts";
import { socketOf, socketText } from "../elements/socket_address.ts";

/** A frontend of one protocol, and endpoints that it has or had, as `socketText` prints them. */
export interface FrontendTargets {
  readonly family: RuleFamily;
  readonly frontend: Frontend;
  readonly targets: ReadonlySet<string>;
}

/** The maps from frontends to endpoints. */
const MAPS: ReadonlyMap<string, FrontendKind> = new Map(
  FRONTEND_KINDS.flatMap((kind) =>
    SCOPES.flatMap((scope) => [
      ...[...EXACT_MODULI, ...drawnModuli(scope)].map((modulus) => [endpointMap(kind, scope, modulus), kind] as const),
      [restMap(kind, scope), kind] as const,
    ]),
  ),
);

/**
 * Returns the UDP frontends that lost endpoints by a commit, with those endpoints. Endpoints that the first batch of a
 * daemon deletes ended while no daemon was running.
 */
export function formerFrontends(differences: readonly SetDifference[]): ReadonlyMap<FrontendId, FrontendTargets> {
  return frontendsIn(differences, "deleted", "UDP");
}

/** The TCP frontends that a commit changed. */
export interface ChangedFrontends {
  /** Frontends that lost endpoints, each with these. An endpoint that only moved within the maps is not lost. */
  readonly lost: ReadonlyMap<FrontendId, FrontendTargets>;
  /** Frontends that got endpoints and lost none: most had none before. */
  readonly begun: ReadonlyMap<FrontendId, FrontendTargets>;
}

/** Returns the TCP frontends that lost endpoints by a commit, and those that only got some. */
export function changedFrontends(differences: readonly SetDifference[]): ChangedFrontends {
  const lost = frontendsIn(differences, "deleted", "TCP");
  const begun = frontendsIn(differences, "added", "TCP");
  for (const [id, { targets }] of begun) {
    const entry = lost.get(id);
    if (entry === undefined) continue;
    begun.delete(id);
    for (const target of targets) entry.targets.delete(target);
    if (entry.targets.size === 0) lost.delete(id);
  }
  return { lost, begun };
}

type Found = Omit<FrontendTargets, "targets"> & { readonly targets: Set<string> };

function frontendsIn(
  differences: readonly SetDifference[],
  side: "added" | "deleted",
  protocol: "TCP" | "UDP",
): Map<FrontendId, Found> {
  const found = new Map<FrontendId, Found>();
  for (const { set, [side]: elements } of differences) {
    const kind = MAPS.get(set.name);
    if (kind === undefined) continue;
    for (const element of elements) {
      const [frontend, target] = [frontendOf(element, kind, protocol), targetOf(element)];
      if (frontend === undefined || target === undefined) continue;
      const id = frontendId(frontend, protocol, kind.family);
      const entry = found.get(id) ?? { family: kind.family, frontend, targets: new Set<string>() };
      entry.targets.add(target);
      found.set(id, entry);
    }
  }
  return found;
}

function frontendOf({ key }: Element, { space }: FrontendKind, wanted: "TCP" | "UDP"): Frontend | undefined {
  const fields = key.map((field) => (typeof field === "object" ? undefined : field));
  const [protocol, port] = space === "service" ? fields.slice(1) : fields;
  if (protocol !== wanted.toLowerCase() || typeof port !== "number") return undefined;
  if (space === "port") return { type: "node port", port };
  const socket = socketOf(fields[0], port);
  return socket === undefined ? undefined : { type: "cluster", ...socket };
}

function targetOf({ data }: Element): string | undefined {
  if (data === undefined || "kind" in data) return undefined;
  const socket = socketOf(data[0], data[1]);
  return socket === undefined ? undefined : socketText(socket);
}
