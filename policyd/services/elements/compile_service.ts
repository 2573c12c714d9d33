import { type Address, familyOf, formatAddress, type Family } from "../../../kernel/ip/address.ts";
import { commentText } from "../../../kernel/nftables/model/identifier.ts";
import type { Scalar } from "../../../kernel/nftables/model/data_type.ts";
import type { EndpointSlice, Service, ServicePort } from "../../../objects/model.ts";
import { ProblemList } from "../../../objects/problem_list.ts";
import type { DesiredElement } from "../../ruleset/desired/desired_element.ts";
import { MOST_TIMEOUTS, usedTimeout } from "../../../objects/timeout_choice.ts";
import { type Frontend, KUBERNETES_SERVICE, refusalText } from "../../../objects/socket_refusal.ts";
import { type AffinityTimeout, NO_AFFINITY, type TimeoutClasses } from "../affinity/timeout_numbers.ts";
import { affinityElements, endpointElements } from "./endpoint_elements.ts";
import { type FrontendHolders, type FrontendId, frontendId } from "./arbitration.ts";
import { claim, keyOf, keyWith, kindOf } from "./frontend_element.ts";
import type { CompileContext } from "../rules/context.ts";
import { isSpecial, type PortEndpoint, portEndpoints, select, type Selection } from "./endpoints.ts";
import { familiesOf, fieldProblems, frontendsOf, type RefusedFrontend, refusedFrontends } from "./frontends.ts";
import { ADDRESS_SETS, type FrontendSet, RESTRICTED_PORTS } from "../rules/frontend_sets.ts";
import { nameOf, type Scope } from "../rules/frontend_kind.ts";
import { mostEndpoints } from "../rules/endpoint_draw.ts";
import { numberMap, plainMap } from "../rules/number_maps.ts";
import { place } from "./placement.ts";
import { portIdentity, portNumber } from "../rules/priority_number.ts";
import { servedWith } from "./service_size.ts";
import { allowedSources } from "./source_ranges.ts";

/** The contribution of a Service to the node's tables. */
export interface CompiledService {
  readonly claims: readonly DesiredElement[];
  /** Addresses of endpoints that no machine can have, each once. */
  readonly ignoredEndpoints: readonly Address[];
  /** The parts of it that cannot be served, as messages for administrators. */
  readonly problems: readonly string[];
  /** Frontends that it claims and does not get, since they belong to the node or the cluster. */
  readonly refused: readonly RefusedFrontend[];
  readonly served: readonly ServedFrontend[];
  /** Whether more of it is served as soon as its namespace has more room. */
  readonly lacksRoom: boolean;
  /** The traffic policies that require an endpoint on this node while only other nodes have some. */
  readonly withoutLocal: ReadonlySet<TrafficPolicy>;
}

/** A frontend that this Service has, without its claims: those of a large Service take tens of megabytes. */
export interface ServedFrontend {
  readonly id: FrontendId;
  readonly port: ServicePort;
  /** The numbers and endpoints that the elements of its claims map to. */
  readonly data: readonly (readonly Scalar[])[];
}

/** The claims by which a frontend is served. */
export interface FrontendClaims {
  readonly id: FrontendId;
  readonly claims: readonly DesiredElement[];
}

/** The clients that a traffic policy applies to: those of the Service's own address, or all others. */
export type TrafficPolicy = "internal" | "external";

/** A port with the numbers that represent it in the rules. */
interface IdentifiedPort extends ServicePort {
  readonly identity: number;
  /** The identity together with the number of the timeout. */
  readonly number: number;
}

/** The endpoints a frontend sends its clients to, by the kind of client. */
interface Destinations {
  readonly all: readonly PortEndpoint[];
  /** The endpoints for clients from outside, if they differ (externalTrafficPolicy Local); undefined if not. */
  readonly local: readonly PortEndpoint[] | undefined;
  readonly isAnyUsable: boolean;
}

/**
 * Computes the elements of one Service on one node: a pure function of the Service, its slices and the facts of the
 * node in the context, whose cost only depends on the size of this Service. The order of slices and of their contents
 * does not matter.
 *
 * It yields each frontend, which may be in force before the others. The claims that it returns are those of no frontend.
 *
 * @param slices those of the Service; others are ignored
 * @param holders decides who has the frontends that several Services claim
 * @param timeoutOf returns how long clients of a timeout stay
 */
export function* compileFrontends(
  whole: Service,
  slices: readonly EndpointSlice[],
  context: CompileContext,
  holders: Pick<FrontendHolders, "rival">,
  timeoutOf: TimeoutClasses["of"],
): Generator<FrontendClaims, CompiledService, void> {
  const { service, ports, problems: ofSize, lacksRoom } = servedWith(whole, slices, context);
  const claims: DesiredElement[] = [];
  const ignored: Address[] = [];
  const timeout = timeoutOf(usedTimeout(service));
  const refused = refusedFrontends(service, context);
  const problems: string[] = [
    ...ofSize,
    ...fieldProblems(service),
    ...refused.map((one) => refusedText(service, one)),
    ...shortened(service, timeout),
  ];
  const taken = new Set<string>();
  const othersOwn = (frontend: Frontend, { protocol }: ServicePort, family: Family): string | undefined => {
    const rival = holders.rival(service.key, frontend, protocol, family);
    if (rival !== undefined) return `Service ${rival}'s`;
    // A single port does not have a frontend twice.
    if (service.ports.length === 1) return undefined;
    return taken.size < taken.add(frontendId(frontend, protocol, family)).size ? undefined : "another port's of it";
  };
  const served: ServedFrontend[] = [];
  const withoutLocal = new Set<TrafficPolicy>();
  for (const family of familiesOf(service)) {
    for (const address of service.clusterIps) {
      if (familyOf(address) !== family || isSpecial(address)) continue;
      if (isOthersAddress(service, address, context)) continue;
      claims.push(claim(`${ADDRESS_SETS.cluster}${family}`, [address]));
    }
  }
  for (const port of service.ports) {
    const identity = portIdentity(service.key, port);
    const identified = { ...port, identity, number: portNumber(identity, timeout.number) };
    for (const family of familiesOf(service)) {
      const endpoints = portEndpoints(ports, port, family, context);
      for (const address of endpoints.ignored) ignored.push(address);
      const selection = select(endpoints.usable, context);
      for (const frontend of frontendsOf(service, port, family, context)) {
        const whose = othersOwn(frontend, port, family);
        if (whose !== undefined) {
          problems.push(
            `Service ${service.key}: port ${port.name}: ${frontend.type} ${port.protocol} ${frontend.port} is ${whose}`,
          );
          continue;
        }
        const destinations = destinationsOf(service, frontend, selection, endpoints.usable.length > 0);
        if (isWithoutLocal(destinations)) withoutLocal.add(frontend.type === "cluster" ? "internal" : "external");
        problems.push(...excess(service, port, destinations));
        const frontendsOwn = frontendClaims(service, identified, frontend, family, destinations).concat(
          sourceClaims(service, port, frontend, family, context),
        );
        const id = frontendId(frontend, port.protocol, family);
        served.push({ id, port, data: dataOf(frontendsOwn) });
        yield { id, claims: frontendsOwn };
      }
    }
  }
  const ignoredEndpoints = eachOnce(ignored);
  const bounded = boundedProblems(service, problems);
  return { claims, ignoredEndpoints, problems: bounded, refused, served, withoutLocal, lacksRoom };
}

function dataOf(claims: readonly DesiredElement[]): ServedFrontend["data"] {
  return claims.flatMap(({ element: { data } }) => (data === undefined || "kind" in data ? [] : [data]));
}

/** Returns whether a cluster IP has a socket that nodes depend on: no port of such an address is this Service's. */
function isOthersAddress({ key }: Service, address: Address, { protection }: CompileContext): boolean {
  return key !== KUBERNETES_SERVICE.key && protection?.isProtectedAddress(address) === true;
}

/** Returns a text that is the same on every node; otherwise each node would create an Event of its own. */
function refusedText({ key }: Service, { frontend, protocol, refusal }: RefusedFrontend): string {
  const address = "address" in frontend ? ` ${formatAddress(frontend.address)}` : "";
  const what = `${FIELDS[frontend.type]}:${address} ${protocol} ${frontend.port}`;
  return `Service ${key}: ${what} ${refusalText(refusal)}: it is not served there; all else of the Service is`;
}

const FIELDS = {
  cluster: "spec.clusterIPs",
  "load balancer": "status.loadBalancer.ingress",
  external: "spec.externalIPs",
  "node port": "spec.ports.nodePort",
  "health check": "spec.healthCheckNodePort",
} as const;

function shortened({ key, affinitySeconds }: Service, timeout: AffinityTimeout): readonly string[] {
  if (timeout === NO_AFFINITY || timeout.seconds === affinitySeconds) return [];
  return [
    `Service ${key}: sessionAffinityConfig.clientIP.timeoutSeconds: ${affinitySeconds}: more than ${MOST_TIMEOUTS} different timeouts are in use; clients stay for ${timeout.seconds} s, the next shorter one that is served`,
  ];
}

/** Returns each problem once, and only some of very many: they stay in memory and are logged. */
function boundedProblems(service: Service, problems: readonly string[]): readonly string[] {
  if (problems.length < 2) return problems;
  const list = new ProblemList();
  for (const problem of eachOnce(problems)) list.tell(problem);
  return list.all(`Service ${service.key}`);
}

function eachOnce<T>(values: readonly T[]): readonly T[] {
  return values.length < 2 ? values : [...new Set(values)];
}

function isWithoutLocal({ all, local, isAnyUsable }: Destinations): boolean {
  return isAnyUsable && (local ?? all).length === 0;
}

function destinationsOf(
  service: Service,
  { type }: Frontend,
  { all, local }: Selection,
  isAnyUsable: boolean,
): Destinations {
  if (type !== "cluster") {
    return { all, local: service.externalTrafficPolicy === "Local" ? local : undefined, isAnyUsable };
  }
  return { all: service.internalTrafficPolicy === "Local" ? local : all, local: undefined, isAnyUsable };
}

function frontendClaims(
  service: Service,
  port: IdentifiedPort,
  frontend: Frontend,
  family: Family,
  destinations: Destinations,
): readonly DesiredElement[] {
  const { all, local, isAnyUsable } = destinations;
  const kind = kindOf(frontend, family);
  const key = keyOf(frontend, port.protocol);
  const comment = commentText(`${service.key}${port.name === "" ? "" : `:${port.name}`}`);
  const member = (set: FrontendSet): DesiredElement => claim(nameOf(set, kind), key, undefined, comment);
  if (!isAnyUsable) return [member("unserved")];
  const isExternal = frontend.type !== "cluster";
  const isPlain = !isExternal && service.affinitySeconds === undefined;
  const numbers = isPlain ? plainMap(family) : numberMap(kind);
  const used = { all: firstOf(all, "all"), local: firstOf(local ?? NOBODY, "local") };
  const claims: DesiredElement[] = [];
  if (all.length > 0) claims.push(member(""), claim(numbers, key, [port.number]));
  if (isExternal && local === undefined) claims.push(member("masquerade"));
  if (local !== undefined) claims.push(member("external"));
  if (isWithoutLocal(destinations)) claims.push(member("unserved"), member("drop"));
  return claims.concat(
    endpointElements(kind, "all", key, used.all),
    endpointElements(kind, "local", key, used.local),
    affinityElements(service, port.identity, kind, key, used),
  );
}

const NOBODY: readonly PortEndpoint[] = [];

/** Returns as many endpoints as there is room for, the same ones whatever their order. */
function firstOf(endpoints: readonly PortEndpoint[], scope: Scope): readonly PortEndpoint[] {
  const most = mostEndpoints(scope);
  if (endpoints.length <= most) return endpoints;
  return place(endpoints, endpoints.length)
    .slice(0, most)
    .map(({ endpoint }) => endpoint);
}

function sourceClaims(
  service: Service,
  port: ServicePort,
  frontend: Frontend,
  family: Family,
  context: CompileContext,
): readonly DesiredElement[] {
  const allowed = allowedSources(service, frontend, family, context);
  if (allowed === undefined) return [];
  const kind = kindOf(frontend, family);
  const key = keyOf(frontend, port.protocol);
  return [
    claim(nameOf("restricted", kind), key),
    claim(RESTRICTED_PORTS, key.slice(-2)),
    ...allowed.map((range) => claim(nameOf("allowed", kind), keyWith(key, range))),
  ];
}

function excess(service: Service, port: ServicePort, { all, local = NOBODY }: Destinations): readonly string[] {
  const problems: string[] = [];
  const check = (scope: Scope, { length }: readonly PortEndpoint[]): void => {
    const most = mostEndpoints(scope);
    if (length <= most) return;
    problems.push(
      `Service ${service.key}: port ${port.name}: ${length} endpoints${scope === "local" ? " on this node" : ""}; expected at most ${most}, the others are not used`,
    );
  };
  check("all", all);
  check("local", local);
  return problems;
}
