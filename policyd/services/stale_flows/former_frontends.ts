import type { Element } from "../../../kernel/nftables/model/object.ts";
import type { SetDifference } from "../../ruleset/difference.ts";
import type { FrontendId } from "../elements/arbitration.ts";
import { endpointMap, restMap } from "../rules/endpoint_maps.ts";
import { FRONTEND_KINDS, type FrontendKind, SCOPES } from "../rules/frontend_kind.ts";
import { drawnModuli, EXACT_MODULI } from "../rules/endpoint_draw.ts";
import { socketOf, socketText } from "../elements/socket_address.ts";

/** Endpoints of frontends of one protocol, as `socketText` prints them. */
export type Targets = ReadonlyMap<FrontendId, ReadonlySet<string>>;

/** The maps from frontends to endpoints. */
const MAPS: ReadonlyMap<string, FrontendKind> = new Map(
  FRONTEND_KINDS.flatMap((kind) =>
    SCOPES.flatMap((scope) => [
      ...[...EXACT_MODULI, ...drawnModuli(scope)].map((modulus) => [endpointMap(kind, scope, modulus), kind] as const),
      [restMap(kind, scope), kind] as const,
    ]),
  ),
);

/** The frontends of one protocol that a commit changed. */
interface ChangedFrontends {
  /** Frontends that lost endpoints, each with these. An endpoint that only moved within the maps is not lost. */
  readonly lost: Targets;
  /** Frontends that got endpoints and lost none: most had none before. */
  readonly begun: Targets;
}

/** Returns the frontends of a protocol that lost endpoints by a commit, and those that only got some. */
export function changedFrontends(differences: readonly SetDifference[], protocol: "TCP" | "UDP"): ChangedFrontends {
  const lost = targetsIn(differences, "deleted", protocol);
  const begun = targetsIn(differences, "added", protocol);
  for (const [id, targets] of begun) {
    const left = lost.get(id);
    if (left === undefined) continue;
    begun.delete(id);
    for (const target of targets) left.delete(target);
    if (left.size === 0) lost.delete(id);
  }
  return { lost, begun };
}

/** Returns the frontends of a protocol to which a commit added, or from which it deleted, endpoints, with these. */
function targetsIn(
  differences: readonly SetDifference[],
  side: "added" | "deleted",
  protocol: "TCP" | "UDP",
): Map<FrontendId, Set<string>> {
  const found = new Map<FrontendId, Set<string>>();
  for (const { set, [side]: elements } of differences) {
    const kind = MAPS.get(set.name);
    if (kind === undefined) continue;
    for (const element of elements) {
      // The fields of a frontend's id, which end with protocol and port; the number of an endpoint may follow.
      const key = element.key.map((field) => (typeof field === "object" ? "" : field));
      const fields = key.slice(0, kind.space === "service" ? 3 : 2);
      const target = targetOf(element);
      if (fields.at(-2) !== protocol.toLowerCase() || target === undefined) continue;
      const id = [kind.family, ...fields].join(" ");
      found.set(id, (found.get(id) ?? new Set()).add(target));
    }
  }
  return found;
}

function targetOf({ data }: Element): string | undefined {
  if (data === undefined || "kind" in data) return undefined;
  const socket = socketOf(data[0], data[1]);
  return socket === undefined ? undefined : socketText(socket);
}
