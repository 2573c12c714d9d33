import { familyOf, type Family } from "../../../kernel/ip/address.ts";
import type { Endpoint, EndpointSlice, Service } from "../../../objects/model.ts";
import type { CompileContext } from "../rules/context.ts";
import { isSpecial, slicePorts } from "../elements/endpoints.ts";
import { familiesOf, healthCheckPort, refusedHealthCheck } from "../elements/frontends.ts";
import type { RulesetStatus } from "../../ruleset/ruleset.ts";

/** A load balancer's health check of one Service on this node. */
export interface HealthCheck {
  /** `namespace/name` of the Service. */
  readonly key: string;
  readonly namespace: string;
  readonly name: string;
  readonly port: number;
  /** The number of ready pods of this node, in each family the Service has. */
  readonly localEndpoints: ReadonlyMap<Family, number>;
}

/**
 * Returns the health check of a Service; undefined unless it is a load balancer's with externalTrafficPolicy Local
 * (LB-14) that may have its port (CLAIM-01).
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
  const { key, namespace, name } = service;
  const port = healthCheckPort(service);
  if (port === undefined || refusedHealthCheck(service, context) !== undefined) return undefined;
  const families = familiesOf(service);
  // All ports of a slice have one list of endpoints, which is read once.
  const lists = new Set([...slicePorts(slices, service).values()].flat().map(({ endpoints }) => endpoints));
  const isReadyHere = ({ isReady, nodeName }: Endpoint): boolean => isReady && nodeName === context.nodeName;
  const ready = [...lists].flatMap((endpoints) => endpoints.filter(isReadyHere).map(({ address }) => address));
  const readyIn = (family: Family): number =>
    new Set(ready.filter((address) => familyOf(address) === family && !isSpecial(address))).size;
  return { key, namespace, name, port, localEndpoints: new Map(families.map((family) => [family, readyIn(family)])) };
}

export interface HealthAnswer {
  readonly status: 200 | 404 | 503;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/**
 * Returns the answer to a load balancer about a Service, byte for byte as kube-proxy does it (ServeHTTP of
 * pkg/proxy/healthcheck/service_health.go): indented by tabs, without a newline at the end.
 *
 * @param localEndpoints their number, in the family in which the balancer asks
 * @param isHealthy whether the kernel has the desired rules
 */
export function healthAnswer(
  { namespace, name }: Pick<HealthCheck, "namespace" | "name">,
  localEndpoints: number,
  isHealthy: boolean,
): HealthAnswer {
  const content = { service: { namespace, name }, localEndpoints, serviceProxyHealthy: isHealthy };
  return {
    status: localEndpoints > 0 && isHealthy ? 200 : 503,
    headers: {
      "Content-Type": "application/json",
      "X-Content-Type-Options": "nosniff",
      "X-Load-Balancing-Endpoint-Weight": String(localEndpoints),
    },
    body: JSON.stringify(content, undefined, "\t"),
  };
}

/** kube-proxy's healthTimeout is twice its syncPeriod too (cmd/kube-proxy/app/server.go). */
const PERIODS = 2;

/**
 * Returns whether the node does what its objects say: the kernel has the desired state, or has differed from it for
 * less than two resync periods. So a single refused batch turns no traffic away, but a kernel that keeps refusing does.
 *
 * @param now milliseconds, of the same clock as `pendingSince`
 * @param syncPeriod milliseconds
 */
export function isProxyHealthy(
  { isReconciled, pendingSince }: Pick<RulesetStatus, "isReconciled" | "pendingSince">,
  now: number,
  syncPeriod: number,
): boolean {
  return isReconciled || (pendingSince !== undefined && now - pendingSince < PERIODS * syncPeriod);
}
