import type { Frontend, PortClaim, Refusal } from "../../../objects/socket_refusal.ts";
import { type Address, FAMILIES, familyOf, formatAddress, type Family } from "../../../kernel/ip/address.ts";
import type { Protocol, Service, ServicePort } from "../../../objects/model.ts";
import type { CompileContext } from "../rules/context.ts";
import { isSpecial } from "./endpoints.ts";

const ONLY_IPV4: readonly Family[] = [4];
const ONLY_IPV6: readonly Family[] = [6];
const NONE: readonly Family[] = [];

/**
 * Returns the families of a Service's own addresses (DS-02, DS-06); all else of the Service counts only in these.
 *
 * None for one that is not proxied: headless (HL-01), ExternalName (EN-01), another proxy's, or without an address yet.
 */
export function familiesOf(service: Service): readonly Family[] {
  if (service.type === "ExternalName" || service.isHeadless) return [];
  if (service.proxyName !== undefined || service.hasHeadlessLabel) return [];
  let [has4, has6] = [false, false];
  for (const address of service.clusterIps) {
    if (familyOf(address) === 4) has4 = true;
    else has6 = true;
  }
  return has4 ? (has6 ? FAMILIES : ONLY_IPV4) : has6 ? ONLY_IPV6 : NONE;
}

/** A frontend, or the port of health checks, that a Service claims and does not get. */
export interface RefusedFrontend {
  readonly frontend: PortClaim;
  readonly protocol: Protocol;
  readonly refusal: Refusal;
}

/**
 * Returns a port's frontends in one family, each address once; its own address first, then the load balancer's.
 *
 * Node ports and the load balancer's addresses count as reported, whatever the type (NODE-10, LB-01, LB-09), except
 * those that are refused (CLAIM-01, CLAIM-02).
 */
export function frontendsOf(
  service: Service,
  port: ServicePort,
  family: Family,
  context: CompileContext,
): readonly Frontend[] {
  const { protection } = context;
  const claimed = claimedFrontends(service, port, family, context);
  if (protection === undefined) return claimed;
  const isServed = (frontend: Frontend): boolean =>
    protection.refusalOf(service, frontend, port.protocol) === undefined;
  // Nearly always all of them are served, and the list is returned as it is.
  return claimed.every(isServed) ? claimed : claimed.filter(isServed);
}

/** Returns the frontends that are refused to a Service, with the reasons; not those missing for other reasons. */
export function refusedFrontends(service: Service, context: CompileContext): readonly RefusedFrontend[] {
  const { protection } = context;
  if (protection === undefined) return NOTHING;
  const found: RefusedFrontend[] = [];
  for (const { frontend, protocol } of everyClaim(service, context)) {
    const refusal = protection.refusalOf(service, frontend, protocol);
    if (refusal !== undefined) found.push({ frontend, protocol, refusal });
  }
  const ofHealthCheck = refusedHealthCheck(service, context);
  if (ofHealthCheck !== undefined) found.push(ofHealthCheck);
  return found.length === 0 ? NOTHING : found;
}

/** Returns the port at which load balancers check a Service on each node; undefined without one (LB-14). */
export function healthCheckPort(service: Service): number | undefined {
  const { type, externalTrafficPolicy, healthCheckNodePort } = service;
  const isChecked = type === "LoadBalancer" && externalTrafficPolicy === "Local" && familiesOf(service).length > 0;
  return isChecked ? healthCheckNodePort : undefined;
}

/** Returns the port of a Service's health checks if it is refused (CLAIM-01); undefined where it is not. */
export function refusedHealthCheck(service: Service, { protection }: CompileContext): RefusedFrontend | undefined {
  const port = healthCheckPort(service);
  if (port === undefined) return undefined;
  const frontend = { type: "health check", port } as const;
  const refusal = protection?.refusalOf(service, frontend, "TCP");
  return refusal && { frontend, protocol: "TCP", refusal };
}

/** Returns all frontends that a Service claims, refused or not. */
export function* everyClaim(
  service: Service,
  context: CompileContext,
): Generator<{ readonly frontend: Frontend; readonly protocol: Protocol; readonly family: Family }> {
  for (const family of familiesOf(service)) {
    for (const port of service.ports) {
      const { protocol } = port;
      for (const frontend of claimedFrontends(service, port, family, context)) yield { frontend, protocol, family };
    }
  }
}

const NOTHING: readonly RefusedFrontend[] = [];

/** Returns all frontends that a port claims, refused or not. */
function claimedFrontends(
  service: Service,
  { port, nodePort }: ServicePort,
  family: Family,
  { refuseExternalIps }: CompileContext,
): readonly Frontend[] {
  const { clusterIps, loadBalancerIngress, externalIps } = service;
  const found: Frontend[] = [];
  // Nearly all Services have a single address, which cannot occur twice.
  const isOne = clusterIps.length + loadBalancerIngress.length + externalIps.length === 1;
  const seen = isOne ? undefined : new Set<Address>();
  const add = (type: "cluster" | "load balancer" | "external", addresses: readonly Address[]): void => {
    for (const address of addresses) {
      if (familyOf(address) !== family || isSpecial(address) || seen?.has(address) === true) continue;
      seen?.add(address);
      found.push({ type, address, port });
    }
  };
  add("cluster", clusterIps);
  if (loadBalancerIngress.length > 0) add("load balancer", virtualAddresses(service));
  if (!refuseExternalIps) add("external", externalIps);
  if (nodePort !== undefined) found.push({ type: "node port", port: nodePort });
  return found;
}

/** Returns the load balancer's addresses that packets still carry when they arrive (LB-01, LB-12). */
export function virtualAddresses({ loadBalancerIngress }: Service): readonly Address[] {
  return loadBalancerIngress.filter(({ ipMode }) => ipMode === "VIP").map(({ address }) => address);
}

/** Returns a sentence for each address of a Service that cannot be a frontend, since no single machine can have it. */
export function fieldProblems(service: Service): readonly string[] {
  if (familiesOf(service).length === 0) return [];
  const { key, clusterIps, externalIps, loadBalancerIngress } = service;
  const problems: string[] = [];
  const check = (field: string, address: Address): void => {
    if (!isSpecial(address)) return;
    const text = formatAddress(address);
    problems.push(`Service ${key}: ${field}: ${text}; expected an address that a machine can have`);
  };
  for (const address of clusterIps) check("spec.clusterIPs", address);
  for (const address of externalIps) check("spec.externalIPs", address);
  for (const { address } of loadBalancerIngress) check("status.loadBalancer.ingress", address);
  return problems;
}
