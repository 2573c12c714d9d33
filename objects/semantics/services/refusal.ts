import type { Address } from "../../../kernel/ip/address.ts";
import { type Cidr, cidrContains } from "../../../kernel/ip/cidr.ts";
import { judgeNodes } from "../../nodes/judged_nodes.ts";
import type { EndpointSlice, Node, Protocol, Service } from "../../model.ts";
import {
  API_SERVER,
  CLUSTER_OWNERS,
  type ConfiguredSockets,
  KUBERNETES_SERVICE,
  METADATA_ADDRESSES,
  type ProtectedPort,
  type Refusal,
} from "../../socket_refusal.ts";
import { specialClass } from "./address_class.ts";
import type { Frontend } from "./verdict.ts";
import type { ServiceWorld } from "./world.ts";

/** An address and a port that a Service claims. */
export interface Claimed {
  readonly type: Frontend["type"];
  readonly address: Address;
  readonly protocol: Protocol;
  readonly port: number;
}

/**
 * Returns why a Service does not get a socket that it claims; undefined if it may have it (CLAIM-01, CLAIM-02).
 *
 * - A socket that nodes depend on can only belong to `default/kubernetes`, at whichever of its addresses.
 * - No Service gets a protected port as a node port, or at an address of a Node.
 * - The cluster's own addresses are refused as external IPs and load balancers' addresses, unless a Node has them.
 */
export function refusalOf(world: ServiceWorld, service: Service, claimed: Claimed): Refusal | undefined {
  const { protection } = world.configuration;
  if (protection === undefined) return undefined;
  const { type, address } = claimed;
  const socket = ownerOfSocket(world, protection, claimed);
  const isKubernetes = service.key === KUBERNETES_SERVICE.key;
  // A program listens there, so it is never a node port, not even of the API server's own Service.
  if (isKubernetes && (type !== "NodePort" || socket === undefined)) return undefined;
  if (socket !== undefined) return { type: "protected socket", owner: socket };
  if (type === "ClusterIP") return undefined;
  const isOfNode = nodeAddressesOf(world.nodes).has(address);
  const port = isOfNode || type === "NodePort" ? ownerOf(protection.ports, claimed) : undefined;
  if (port !== undefined) return { type: "protected socket", owner: port };
  if (isOfNode || type === "NodePort") return undefined;
  const owner = ownerOfAddress(world, protection.serviceCidrs, address);
  return owner === undefined ? undefined : { type: "cluster address", owner };
}

/** Returns whether an address has a socket that nodes depend on. */
export function isProtectedAddress({ configuration, endpointSlices }: ServiceWorld, address: Address): boolean {
  const { protection } = configuration;
  if (protection === undefined) return false;
  const isConfigured = protection.sockets.some((socket) => socket.address === address);
  return isConfigured || apiServersOf(endpointSlices).some((socket) => socket.address === address);
}

/** Returns whether a Node has an address and the configuration protects sockets at all. */
export function isNodeAddress({ nodes, configuration }: ServiceWorld, address: Address): boolean {
  return configuration.protection !== undefined && nodeAddressesOf(nodes).has(address);
}

function ownerOfSocket(
  { endpointSlices }: ServiceWorld,
  { sockets }: ConfiguredSockets,
  claimed: Claimed,
): string | undefined {
  const configured = ownerOf(
    sockets.filter(({ address }) => address === claimed.address),
    claimed,
  );
  const isApiServer = apiServersOf(endpointSlices).some(
    ({ address, port, protocol }) =>
      address === claimed.address && port === claimed.port && protocol === claimed.protocol,
  );
  return configured ?? (isApiServer ? API_SERVER : undefined);
}

function ownerOf(owners: readonly ProtectedPort[], { protocol, port }: Claimed): string | undefined {
  return owners.findLast((one) => one.protocol === protocol && one.port === port)?.owner;
}

/** Returns all ports of all endpoints of the API server's Service, ready or not. */
function apiServersOf(slices: readonly EndpointSlice[]): readonly Omit<Claimed, "type">[] {
  return slices
    .filter(({ namespace }) => namespace === KUBERNETES_SERVICE.namespace)
    .filter(({ serviceName }) => serviceName === KUBERNETES_SERVICE.name)
    .flatMap(({ ports, endpoints }) =>
      endpoints.flatMap(({ address }) =>
        ports.flatMap(({ protocol, port }) => (port === undefined ? [] : [{ address, protocol, port }])),
      ),
    );
}

const addresses = new WeakMap<readonly Node[], ReadonlySet<Address>>();

/** Cached, since each packet needs it and it is the same for all packets of a world. */
function nodeAddressesOf(nodes: readonly Node[]): ReadonlySet<Address> {
  const known = addresses.get(nodes);
  if (known !== undefined) return known;
  const all = nodes.flatMap((node) => node.addresses.map(({ address }) => address));
  const found = new Set(all.filter((address) => specialClass(address) === undefined));
  addresses.set(nodes, found);
  return found;
}

function ownerOfAddress(
  { nodes, nodeName, configuration }: ServiceWorld,
  serviceCidrs: readonly Cidr[],
  address: Address,
): string | undefined {
  if (METADATA_ADDRESSES.has(address)) return CLUSTER_OWNERS.metadata;
  const judged = [...judgeNodes(nodes, { nodeName, serviceCidrs }).nodes.values()].flatMap(({ podCidrs }) => podCidrs);
  if ([...configuration.clusterCidrs, ...judged].some((cidr) => cidrContains(cidr, address)))
    return CLUSTER_OWNERS.pods;
  // A range that contains the address of a node is a mistake, and says nothing about other addresses.
  const ofNodes = [...nodeAddressesOf(nodes)];
  const ranges = serviceCidrs.filter((cidr) => !ofNodes.some((one) => cidrContains(cidr, one)));
  return ranges.some((cidr) => cidrContains(cidr, address)) ? CLUSTER_OWNERS.services : undefined;
}
