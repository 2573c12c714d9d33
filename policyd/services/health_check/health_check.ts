import type { EndpointSlice, Service } from "../../../objects/model.ts";
import type { CompileContext } from "../rules/context.ts";
import { portEndpoints, slicePorts } from "../elements/endpoints.ts";
import type { RuleFamily } from "../rules/frontend_kind.ts";
import { familiesOf } from "../elements/frontends.ts";

/** A load balancer's health check of one Service on this node. */
export interface HealthCheck {
  /** `namespace/name` of the Service. */
  readonly key: string;
  readonly namespace: string;
  readonly name: string;
  readonly port: number;
  /** The number of ready pods of this node, in each family the Service has. */
  readonly localEndpoints: ReadonlyMap<RuleFamily, number>;
}

/**
 * Returns the health check of a Service; undefined unless it is a load balancer's with externalTrafficPolicy Local
 * (LB-14).
 *
 * Endpoints are counted by their address, whatever their ports. Terminating ones do not count although they still
 * serve: the node fails its check while it drains (TERM-02). Each family counts separately, as in kube-proxy's two
 * proxiers.
 */
export function healthCheckOf(
  service: Service,
  slices: readonly EndpointSlice[],
  context: CompileContext,
): HealthCheck | undefined {
  const { key, namespace, name, type, externalTrafficPolicy, healthCheckNodePort: port } = service;
  if (type !== "LoadBalancer" || externalTrafficPolicy !== "Local" || port === undefined) return undefined;
  const families = familiesOf(service);
  if (families.length === 0) return undefined;
  const ports = slicePorts(slices, service);
  const readyIn = (family: RuleFamily): number => {
    const usable = service.ports.flatMap((servicePort) => portEndpoints(ports, servicePort, family, context).usable);
    const ready = usable.filter(({ isLocal, state }) => isLocal && state === "ready");
    return new Set(ready.map(({ address }) => address)).size;
  };
  return { key, namespace, name, port, localEndpoints: new Map(families.map((family) => [family, readyIn(family)])) };
}
