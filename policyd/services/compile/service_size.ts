import type { Service } from "../../cluster/model.ts";
import type { CompileContext } from "./context.ts";
import type { Frontend } from "./frontends.ts";
import { familiesOf } from "./frontends.ts";
import { isRestricted } from "./source_ranges.ts";

/**
 * The most pairs of a port and an address that a Service may come to, where source ranges hold of the three: elements and
 * the time they take stay bounded, of which a small object asks for millions. The API server bounds none of these lists.
 */
export const MOST_FRONTENDS = 16_384;

/** As much of a Service as is served. */
export interface ServedPart {
  /** As it was given, or for its size without all by which it is reached but its own addresses, or without ports. */
  readonly service: Service;
  /** That it is not all of it, for people. */
  readonly problems: readonly string[];
}

/**
 * As much of a Service as is served, at the cost of its ports alone: all of it, or where that were more than
 * {@link MOST_FRONTENDS} its own addresses, or where these alone were more than that nothing.
 */
export function servedPart(service: Service, context: CompileContext): ServedPart {
  const count = frontendCount(service, context);
  if (count <= MOST_FRONTENDS) return { service, problems: NONE };
  const isOwnKept = ownCount(service) <= MOST_FRONTENDS;
  const text =
    `Service ${service.key}: ${count} pairs of a port and an address, source ranges counted; ` +
    `expected at most ${MOST_FRONTENDS}: ${isOwnKept ? "only its cluster IPs are" : "nothing of it is"} served`;
  const ports = isOwnKept ? service.ports.map((port) => ({ ...port, nodePort: undefined })) : NONE;
  return { service: { ...service, ports, externalIps: NONE, loadBalancerIngress: NONE }, problems: [text] };
}

const NONE: readonly never[] = [];

/** Without a look at the addresses: those of no use cost a look at each with each port, too. */
function frontendCount(service: Service, { refuseExternalIps }: CompileContext): number {
  const families = familiesOf(service).length;
  if (families === 0) return 0;
  const { ports, externalIps, loadBalancerIngress } = service;
  const nodePorts = ports.reduce((sum, { nodePort }) => (nodePort === undefined ? sum : sum + 1), 0);
  return (
    ownCount(service) +
    ports.length * loadBalancerIngress.length * sourceCount(service, "load balancer") +
    (refuseExternalIps ? 0 : ports.length * externalIps.length * sourceCount(service, "external")) +
    nodePorts * families * sourceCount(service, "node port")
  );
}

function ownCount({ ports, clusterIps }: Service): number {
  return ports.length * clusterIps.length;
}

/** How many sources a frontend may have at most, those of the balancer's own addresses among them; one is everybody. */
function sourceCount(service: Service, type: Frontend["type"]): number {
  if (!isRestricted(service, type)) return 1;
  const { loadBalancerSourceRanges = NONE, loadBalancerIngress } = service;
  return Math.max(1, loadBalancerSourceRanges.length + loadBalancerIngress.length);
}
