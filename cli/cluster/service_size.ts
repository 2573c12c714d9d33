import type { EndpointSlice, Service } from "../../policyd/cluster/model.ts";
import { servedWith } from "../../policyd/services/compile/service_size.ts";

/** A Service that is too large for nodes, which the evaluator does not know of (BAD-01). */
export interface OversizedService {
  /** As much of it as they serve. */
  readonly served: Service;
  /** That it is not all of it. */
  readonly problems: readonly string[];
}

/** Those of some Services that nodes do not serve whole for their size, by key. */
export function oversizedServices(
  services: Iterable<Service>,
  slices: readonly EndpointSlice[],
  refuseExternalIps: boolean,
): ReadonlyMap<string, OversizedService> {
  const slicesOf = Map.groupBy(slices, ({ namespace, serviceName }) => `${namespace}/${serviceName}`);
  // What is counted depends on no node.
  const context = { nodeName: "", zone: undefined, primaryAddresses: [], refuseExternalIps };
  const found = new Map<string, OversizedService>();
  for (const service of services) {
    const { service: served, problems } = servedWith(service, slicesOf.get(service.key) ?? [], context);
    if (problems.length > 0) found.set(service.key, { served, problems });
  }
  return found;
}
