import type { Configuration } from "../../policyd/configuration/configuration.ts";
import { configuredSockets } from "../../policyd/protection/configured_sockets.ts";
import { type Address, FAMILIES } from "../../kernel/ip/address.ts";
import { type Cidr, cidrContains, hostCidr } from "../../kernel/ip/cidr.ts";
import type { Pod, Service, EndpointSlice } from "../../objects/model.ts";
import type { ServiceConfiguration, ServiceWorld } from "../../objects/semantics/services/world.ts";
import { type Cluster, nodeAddress, podAddress, UNKNOWN_NODE } from "./cluster.ts";
import type { ServiceObjects } from "./service_objects.ts";
import { SERVICE_ELEMENTS } from "../../policyd/bounds.ts";
import { servedWith } from "../../policyd/services/elements/service_size.ts";
import { serviceKeyOf } from "../../objects/service_key.ts";
import { judgeNodes } from "../../objects/nodes/judged_nodes.ts";
import { usedNode } from "../../objects/nodes/node_verdict.ts";

/** The settings by which nodes serve Services, from policyd's configuration. */
export interface ServiceSettings extends Omit<ServiceConfiguration, "clusterCidrs"> {
  /** False where another program serves them. */
  readonly isServing: boolean;
  /** A node's pod networks while its Node states none. */
  readonly podCidrs: readonly Cidr[];
}

const DEFAULTS: ServiceSettings = Object.freeze({
  isServing: true,
  nodePortAddresses: [],
  refuseExternalIps: false,
  tcpReset: false,
  podCidrs: [],
});

/** The Services of a cluster as each of its nodes sees them. */
export class ServiceWorlds {
  readonly objects: ServiceObjects;
  readonly settings: ServiceSettings;
  /** The Services that nodes do not serve whole, by key. */
  readonly oversized: ReadonlyMap<string, OversizedService>;
  readonly #services: readonly Service[];
  readonly #cluster: Cluster;
  readonly #configuration: ServiceConfiguration;
  readonly #worlds = new Map<string, ServiceWorld>();

  /** @param settings policyd's defaults without them */
  constructor(cluster: Cluster, objects: ServiceObjects, settings = DEFAULTS) {
    this.objects = objects;
    this.settings = settings;
    this.#cluster = cluster;
    const { isServing, nodePortAddresses, refuseExternalIps, tcpReset, protection } = settings;
    const services = [...objects.services.values()];
    this.oversized = isServing
      ? oversizedServices(services, objects.endpointSlices, refuseExternalIps)
      : new Map<string, OversizedService>();
    this.#services = services.map((service) => this.servedPart(service));
    const ranges = [...cluster.store.serviceCidrs.values()].flatMap(({ cidrs }) => cidrs);
    this.#configuration = {
      nodePortAddresses,
      refuseExternalIps,
      tcpReset,
      clusterCidrs: podNetworks(cluster),
      ...(protection === undefined
        ? {}
        : { protection: { ...protection, serviceCidrs: [...protection.serviceCidrs, ...ranges] } }),
    };
  }

  /** Returns the part of a Service that nodes serve. */
  servedPart(service: Service): Service {
    return this.oversized.get(service.key)?.served ?? service;
  }

  /** Returns a node's view. @param nodeName may be a name without an object: a node that runs no pod */
  of(nodeName: string): ServiceWorld {
    const known = this.#worlds.get(nodeName);
    if (known !== undefined) return known;
    const { store } = this.#cluster;
    const isKnown = store.nodes.has(nodeName) || nodeName === UNKNOWN_NODE;
    const node = store.nodes.get(nodeName);
    const own = (node?.addresses ?? []).map(({ address }) => address);
    const stated = node?.podCidrs ?? [...store.nodes.values()].flatMap(({ podCidrs }) => podCidrs);
    const configured = stated.length > 0 ? [] : this.settings.podCidrs;
    const reached = FAMILIES.flatMap((family) => (isKnown ? (nodeAddress(this.#cluster, nodeName, family) ?? []) : []));
    const nodes = [...store.nodes.values()];
    const judged = judgeNodes(nodes, { nodeName }).nodes;
    const world: ServiceWorld = {
      nodeName,
      services: this.#services,
      endpointSlices: this.objects.endpointSlices,
      nodes: nodes.map((one) => usedNode(one, judged.get(one.name))),
      localPods: new Set(this.#podsOn(nodeName).flatMap((pod) => this.#addressesOf(pod))),
      nodeAddresses: new Set([...own, ...reached]),
      configuration: { ...this.#configuration, clusterCidrs: [...configured, ...this.#configuration.clusterCidrs] },
    };
    this.#worlds.set(nodeName, world);
    return world;
  }

  #podsOn(nodeName: string): readonly Pod[] {
    // A pod for which the files name no node may be on any.
    return [...this.#cluster.store.pods.values()].filter(
      (pod) => !pod.hostNetwork && (pod.nodeName ?? nodeName) === nodeName,
    );
  }

  #addressesOf(pod: Pod): readonly Address[] {
    if (pod.addresses.length > 0) return pod.addresses;
    return FAMILIES.flatMap((family) => podAddress(this.#cluster, pod, family) ?? []);
  }
}

/** Returns the pods' addresses outside of all Nodes' podCIDRs; the daemon would know these as pods. */
function podNetworks(cluster: Cluster): readonly Cidr[] {
  const { nodes, pods } = cluster.store;
  const known = [...nodes.values()].flatMap(({ podCidrs }) => podCidrs);
  return [...pods.values()]
    .filter(({ hostNetwork }) => !hostNetwork)
    .flatMap(({ addresses }) => addresses)
    .filter((address) => !known.some((network) => cidrContains(network, address)))
    .map(hostCidr);
}

/** Returns how nodes with a configuration serve Services, if they do. */
export function serviceSettingsOf(configuration: Configuration): ServiceSettings {
  const { services, nodePortAddresses, refuseExternalIPs, tcpReset, podCIDRs, serviceCIDRs } = configuration;
  return {
    isServing: services,
    nodePortAddresses,
    refuseExternalIps: refuseExternalIPs,
    tcpReset,
    podCidrs: podCIDRs,
    protection: { ...configuredSockets(configuration), serviceCidrs: serviceCIDRs },
  };
}

/** A Service that is too large for nodes. The evaluator does not know this limit (BAD-01). */
interface OversizedService {
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
  const slicesOf = Map.groupBy(slices, serviceKeyOf);
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
