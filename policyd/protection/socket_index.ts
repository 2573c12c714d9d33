import { Signal } from "../lib/signal.ts";
import type { Address } from "../../kernel/ip/address.ts";
import { type Cidr, cidrContains } from "../../kernel/ip/cidr.ts";
import type { EndpointSlice, Node, ObjectChange, Protocol, Service } from "../../objects/model.ts";
import { isReserved } from "../../objects/nodes/reserved_addresses.ts";
import type { NodeJudge } from "../../objects/nodes/node_judge.ts";
import { PrefixIndex } from "../../objects/nodes/prefix_index.ts";
import {
  API_SERVER,
  CLUSTER_OWNERS,
  type ConfiguredSockets,
  KUBERNETES_SERVICE,
  METADATA_ADDRESSES,
  portKey,
  type PortClaim,
  type ProtectedSocket,
  type Refusal,
} from "../../objects/socket_refusal.ts";

/** Decides which addresses and ports Services do not get. */
export interface FrontendRefusals {
  /** Returns why a Service does not get a port of one protocol; undefined where it may have it. */
  refusalOf(service: Pick<Service, "key">, claim: PortClaim, protocol: Protocol): Refusal | undefined;
  /** Whether a port of an address is protected, so that only `default/kubernetes` may have the whole address. */
  isProtectedAddress(address: Address): boolean;
  /** Whether a Node has an address. */
  isNodeAddress(address: Address): boolean;
}

/** The most endpoints of `default/kubernetes` that are protected; API servers are a handful. */
const MOST_ENDPOINTS = 256;

/**
 * The sockets that nodes depend on, at the addresses that the cluster names. The API server's come from the endpoints
 * of `default/kubernetes` and from the daemon's own requests, others from the addresses of Nodes. The node judge
 * supplies the cluster's own addresses.
 *
 * Writers of these endpoints and of Nodes are trusted. One index serves the whole daemon: each part passes on the
 * changes that it receives.
 */
export class ProtectedSocketIndex implements FrontendRefusals {
  readonly #configured: ConfiguredSockets;
  readonly #judge: NodeJudge;
  readonly #readVerdict: ReturnType<NodeJudge["reader"]>;
  /** The owners of ports on all nodes, by {@link portKey}. */
  readonly #ports: ReadonlyMap<string, string>;
  readonly #addressesOf = new Map<string, readonly Address[]>();
  /** The addresses of all Nodes; undefined until requested. */
  #nodeAddresses: ReadonlySet<Address> | undefined;
  readonly #slices = new Map<string, EndpointSlice>();
  #kubernetes: Service | undefined;
  #asked: readonly ProtectedSocket[] = [];
  /** By address; undefined until requested. */
  #sockets: ReadonlyMap<Address, readonly ProtectedSocket[]> | undefined;
  #networks: PrefixIndex<string> | undefined;
  #serviceCidrs: readonly Cidr[] | undefined;
  #version = 0;
  /** Emits after each change that comes from no object. */
  readonly askedChanged = new Signal();

  constructor(configured: ConfiguredSockets, judge: NodeJudge) {
    this.#configured = configured;
    this.#judge = judge;
    this.#readVerdict = judge.reader();
    this.#ports = new Map(configured.ports.map(({ protocol, port, owner }) => [portKey(protocol, port), owner]));
  }

  apply(changes: readonly ObjectChange[]): void {
    for (const change of changes) {
      const object = change.type === "set" ? change.object : undefined;
      if (change.kind === "Node") this.#setNode(change.key, object?.kind === "Node" ? object : undefined);
      if (change.kind === "EndpointSlice") {
        this.#setSlice(change.key, object?.kind === "EndpointSlice" ? object : undefined);
      }
      if (change.kind === "Service" && change.key === KUBERNETES_SERVICE.key) {
        const service = object?.kind === "Service" ? object : undefined;
        if (service === this.#kubernetes) continue;
        this.#kubernetes = service;
        this.#version++;
      }
    }
  }

  /** Sets the sockets at which this node itself uses the API server. */
  setAsked(sockets: readonly ProtectedSocket[]): void {
    if (textOf(sockets) === textOf(this.#asked)) return;
    this.#asked = sockets;
    this.#changed();
    this.askedChanged.emit();
  }

  /** Returns a number that changes with each change, including changes of the cluster's own networks. */
  currentVersion(): number {
    if (this.#readVerdict().size > 0 || this.#serviceCidrs !== this.#judge.serviceCidrs) {
      this.#serviceCidrs = this.#judge.serviceCidrs;
      this.#networks = undefined;
      this.#version++;
    }
    return this.#version;
  }

  /** Returns the protected ports of single addresses, each once. */
  allSockets(): readonly ProtectedSocket[] {
    return [...this.#byAddress().values()].flat();
  }

  /**
   * Returns {@link allSockets} without the frontends of `default/kubernetes`: the sockets that no rule may translate.
   */
  sockets(): readonly ProtectedSocket[] {
    return this.allSockets().filter((socket) => !isFrontendOf(this.#kubernetes, socket));
  }

  /** Returns the addresses of all Nodes. */
  nodeAddresses(): ReadonlySet<Address> {
    return (this.#nodeAddresses ??= new Set([...this.#addressesOf.values()].flat()));
  }

  refusalOf({ key }: Pick<Service, "key">, claim: PortClaim, protocol: Protocol): Refusal | undefined {
    // A server of the daemon takes the port at all addresses of the node, whosever Service it is.
    if (claim.type === "health check") return this.#refusalOfServer(claim.port, protocol);
    if (key === KUBERNETES_SERVICE.key) return undefined;
    const ofPort = (): Refusal | undefined => protectedFor(this.#ports.get(portKey(protocol, claim.port)));
    if (claim.type === "node port") return ofPort();
    const { type, address, port } = claim;
    const holder = this.#byAddress()
      .get(address)
      ?.find((socket) => socket.protocol === protocol && socket.port === port);
    if (holder !== undefined) return protectedFor(holder.owner);
    if (type === "cluster") return undefined;
    // A load balancer may legitimately have a node's address.
    if (this.isNodeAddress(address)) return ofPort();
    const owner = METADATA_ADDRESSES.has(address) ? CLUSTER_OWNERS.metadata : this.#clusterNetworks().find(address);
    return owner === undefined ? undefined : { type: "cluster address", owner };
  }

  #refusalOfServer(port: number, protocol: Protocol): Refusal | undefined {
    // Addresses that no Node has and no other machine either are those of programs beside the node's, such as its DNS server.
    const isOnNodes = (address: Address): boolean => this.isNodeAddress(address) || isReserved(address);
    const holder = this.allSockets().find(
      (socket) => socket.protocol === protocol && socket.port === port && isOnNodes(socket.address),
    );
    return protectedFor(this.#ports.get(portKey(protocol, port)) ?? holder?.owner);
  }

  isNodeAddress(address: Address): boolean {
    return this.nodeAddresses().has(address);
  }

  isProtectedAddress(address: Address): boolean {
    return this.#byAddress().has(address);
  }

  #changed(): void {
    this.#sockets = undefined;
    this.#version++;
  }

  #setNode(name: string, node: Node | undefined): void {
    const before = this.#addressesOf.get(name) ?? [];
    const after = [...new Set((node?.addresses ?? []).map(({ address }) => address))].filter((one) => !isReserved(one));
    // A Node changes every few seconds in other fields.
    if (before.join() === after.join()) return;
    this.#networks = undefined;
    this.#nodeAddresses = undefined;
    if (after.length === 0) this.#addressesOf.delete(name);
    else this.#addressesOf.set(name, after);
    this.#version++;
  }

  #setSlice(key: string, slice: EndpointSlice | undefined): void {
    const isOfKubernetes =
      slice?.namespace === KUBERNETES_SERVICE.namespace && slice.serviceName === KUBERNETES_SERVICE.name;
    const next = isOfKubernetes ? slice : undefined;
    if (this.#slices.get(key) === next) return;
    if (next === undefined) this.#slices.delete(key);
    else this.#slices.set(key, next);
    this.#changed();
  }

  #byAddress(): ReadonlyMap<Address, readonly ProtectedSocket[]> {
    if (this.#sockets === undefined) {
      const all = [...this.#configured.sockets, ...this.#asked, ...endpointsOf(this.#slices.values())];
      const once = new Map(all.map((socket) => [textOf([socket]), socket] as const));
      this.#sockets = Map.groupBy(once.values(), ({ address }) => address);
    }
    return this.#sockets;
  }

  #clusterNetworks(): PrefixIndex<string> {
    if (this.#networks === undefined) {
      this.#networks = new PrefixIndex();
      const nodes = [...this.nodeAddresses()];
      // A range of Services that contains a node's address is a mistake, and says nothing about other addresses.
      const ranges = this.#judge.serviceCidrs.filter((cidr) => !nodes.some((address) => cidrContains(cidr, address)));
      for (const cidr of ranges) this.#networks.set(cidr, CLUSTER_OWNERS.services);
      const ofNodes = [...this.#judge.judged.nodes.values()].flatMap(({ podCidrs }) => podCidrs);
      for (const cidr of [...this.#judge.ownCidrs, ...ofNodes]) this.#networks.set(cidr, CLUSTER_OWNERS.pods);
    }
    return this.#networks;
  }
}

function protectedFor(owner: string | undefined): Refusal | undefined {
  return owner === undefined ? undefined : { type: "protected socket", owner };
}

/** Returns the API server's sockets, from the endpoints of its Service. */
export function endpointsOf(slices: Iterable<EndpointSlice>): readonly ProtectedSocket[] {
  const found: ProtectedSocket[] = [];
  for (const { ports, endpoints } of [...slices].sort((a, b) => (a.key < b.key ? -1 : 1))) {
    for (const { port, protocol } of ports) {
      if (port === undefined) continue;
      for (const { address } of endpoints) {
        if (found.length === MOST_ENDPOINTS) return found;
        found.push({ address, protocol, port, owner: API_SERVER });
      }
    }
  }
  return found;
}

function isFrontendOf(service: Service | undefined, { address, protocol, port }: ProtectedSocket): boolean {
  if (service === undefined || !service.ports.some((one) => one.protocol === protocol && one.port === port))
    return false;
  const { clusterIps, externalIps, loadBalancerIngress } = service;
  return (
    clusterIps.includes(address) ||
    externalIps.includes(address) ||
    loadBalancerIngress.some((one) => one.address === address && one.ipMode === "VIP")
  );
}

function textOf(sockets: readonly ProtectedSocket[]): string {
  return sockets.map(({ address, protocol, port }) => `${typeof address} ${address} ${protocol} ${port}`).join();
}
