import type { Element } from "../../../kernel/nftables/object.ts";
import type { SetDifference } from "../../dataplane/difference.ts";
import type { FrontendId } from "../compile/arbitration.ts";
import { frontendId } from "../compile/arbitration.ts";
import { endpointMap, restMap } from "../compile/endpoint_maps.ts";
import type { FrontendKind } from "../compile/frontend_space.ts";
import { FRONTEND_KINDS, SCOPES } from "../compile/frontend_space.ts";
import type { Frontend } from "../compile/frontends.ts";
import { drawnModuli, EXACT_MODULI } from "../compile/modulus.ts";
import { socketOf, socketText } from "../compile/socket_address.ts";
import type { UdpFrontend } from "./udp_targets.ts";

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
 * The UDP frontends of which a commit took endpoints away, with those endpoints: what the first batch of a daemon takes
 * away went while none was running.
 */
export function formerFrontends(differences: readonly SetDifference[]): ReadonlyMap<FrontendId, UdpFrontend> {
  const found = new Map<FrontendId, Omit<UdpFrontend, "targets"> & { readonly targets: Set<string> }>();
  for (const { set, deleted } of differences) {
    const kind = MAPS.get(set.name);
    if (kind === undefined) continue;
    for (const element of deleted) {
      const [frontend, target] = [frontendOf(element, kind), targetOf(element)];
      if (frontend === undefined || target === undefined) continue;
      const id = frontendId(frontend, "UDP", kind.family);
      const entry = found.get(id) ?? { family: kind.family, frontend, targets: new Set<string>() };
      entry.targets.add(target);
      found.set(id, entry);
    }
  }
  return new Map([...found].map(([id, { targets, ...frontend }]) => [id, { ...frontend, targets: [...targets] }]));
}

function frontendOf({ key }: Element, { space }: FrontendKind): Frontend | undefined {
  const fields = key.map((field) => (typeof field === "object" ? undefined : field));
  const [protocol, port] = space === "service" ? fields.slice(1) : fields;
  if (protocol !== "udp" || typeof port !== "number") return undefined;
  if (space === "port") return { type: "node port", port };
  const socket = socketOf(fields[0], port);
  return socket === undefined ? undefined : { type: "cluster", ...socket };
}

function targetOf({ data }: Element): string | undefined {
  if (data === undefined || "kind" in data) return undefined;
  const socket = socketOf(data[0], data[1]);
  return socket === undefined ? undefined : socketText(socket);
}
