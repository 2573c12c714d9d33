import type { ServicePort } from "../../../objects/model.ts";
import type { Slices } from "../../lib/sliced_work.ts";
import { type FrontendId, frontendId } from "../elements/arbitration.ts";
import { portEndpoints } from "../elements/endpoints.ts";
import type { RuleFamily } from "../rules/frontend_kind.ts";
import type { Frontend } from "../../../objects/socket_refusal.ts";
import { familiesOf, frontendsOf } from "../elements/frontends.ts";
import { servedWith } from "../elements/service_size.ts";
import { socketText } from "../elements/socket_address.ts";
import type { ServedService } from "../service_follower.ts";

/** A frontend of one protocol, and the endpoints that flows of its clients may go to. */
export interface ServedFrontend {
  readonly family: RuleFamily;
  readonly frontend: Frontend;
  /** Endpoints as `socketText` prints them, each once; a list, as most have few. Empty if the Service has none. */
  readonly targets: readonly string[];
}

/**
 * Returns the frontends of a Service with this protocol, with all endpoints that serve. These include terminating ones
 * (TERM-04) and those that policies and hints send no new clients to, since a flow to one of them is valid.
 */
export function* servedFrontends(
  { service: whole, slices, context, holders }: ServedService,
  wanted: "TCP" | "UDP",
): Slices<ReadonlyMap<FrontendId, ServedFrontend>> {
  const found = new Map<FrontendId, ServedFrontend>();
  const isWanted = ({ protocol }: ServicePort): boolean => protocol === wanted;
  if (!whole.ports.some(isWanted)) return found;
  const { service, ports } = servedWith(whole, slices, context);
  for (const family of familiesOf(service)) {
    for (const port of service.ports.filter(isWanted)) {
      const targets = [...new Set(portEndpoints(ports, port, family, context).usable.map(socketText))];
      for (const frontend of frontendsOf(service, port, family, context)) {
        const id = holders.own(frontendId(frontend, wanted, family));
        if (found.has(id) || holders.rival(service.key, frontend, wanted, family) !== undefined) continue;
        found.set(id, { family, frontend, targets });
      }
      yield;
    }
  }
  return found;
}
