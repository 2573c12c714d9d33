import type { EndpointSlice, Service } from "../../objects/model.ts";
import { SERVICE_ELEMENTS } from "../../policyd/bounds.ts";
import { servedWith } from "../../policyd/services/elements/service_size.ts";

/** A Service that is too large for nodes. The evaluator does not know this limit (BAD-01). */
export interface OversizedService {
  /** The part that nodes serve. */
  readonly served: Service;
  /** Sentences that say what is omitted. */
  readonly problems: readonly string[];
}

/** Returns the Services that are too large for nodes to serve whole, by key. */
export function oversizedServices(
  services: Iterable<Service>,
  slices: readonly EndpointSlice[],
  refuseExternalIps: boolean,
): ReadonlyMap<string, OversizedService> {
  const slicesOf = Map.groupBy(slices, ({ namespace, serviceName }) => `${namespace}/${serviceName}`);
  // The counts do not depend on a node.
  const room = SERVICE_ELEMENTS.most;
  const context = { nodeName: "", zone: undefined, primaryAddresses: [], refuseExternalIps, room };
  const found = new Map<string, OversizedService>();
  for (const service of services) {
    const { service: served, problems } = servedWith(service, slicesOf.get(service.key) ?? [], context);
    if (problems.length > 0) found.set(service.key, { served, problems });
  }
  return found;
}
