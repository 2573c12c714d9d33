import { type Address, formatAddress, FAMILIES } from "../../../kernel/ip/address.ts";
import { hostCidr } from "../../../kernel/ip/cidr.ts";
import { newRoute } from "../../../kernel/route/route.ts";
import type { Configuration } from "../../lab/cni.ts";
import type { Lab } from "../../lab/lab.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import type { Prober } from "../../lab/probe/prober.ts";
import { routeTo, type TwoNodes, type WiredNode } from "../../lab/topology.ts";
import { namespaceManifest, type NodeName, type Place, podManifest } from "../policy/lab/place.ts";
import { PolicyLab } from "../policy/lab/policy_lab.ts";
import type { Pair } from "../services/traffic_lab.ts";
import type { KubernetesObject } from "../services/manifest.ts";
import type { NamedEndpoint } from "./services.ts";

/** A pod of a Kubernetes namespace. Its labels are `app` and its name. */
export interface ClusterPod extends NamedEndpoint {
  readonly namespace: LabNamespace;
}

/** Differences of a pod from one without labels of its own and without published ports. */
export interface PodOptions {
  readonly labels?: Readonly<Record<string, string>>;
  readonly runtimeConfig?: Configuration;
}

/** A {@link PolicyLab} whose objects come and go one by one. Pods leave the cluster with their node's address. */
export class SmallCluster {
  readonly lab: Lab;
  readonly nodes: TwoNodes;
  readonly prober: Prober;
  readonly #lab: PolicyLab;
  readonly #namespaces: readonly string[];
  readonly #objects = new Map<string, object>();

  private constructor(lab: PolicyLab, namespaces: readonly string[]) {
    this.#lab = lab;
    this.#namespaces = namespaces;
    ({ lab: this.lab, nodes: this.nodes, prober: this.prober } = lab);
  }

  /** Starts a cluster with these namespaces of Kubernetes, each with the label of its name. */
  static async start(name: string, namespaces: readonly string[]): Promise<SmallCluster> {
    const lab = await PolicyLab.create({ name, pods: [], bridgeNetfilter: { node1: false, node2: false } });
    return new SmallCluster(lab, namespaces);
  }

  /** A machine outside of the cluster. */
  get stranger(): Place {
    return this.#lab.place("stranger");
  }

  /** Gives both nodes objects, which are new or replace others. */
  put(...objects: readonly KubernetesObject[]): void {
    for (const object of objects) this.#objects.set(idOf(object), object);
    this.#lab.tell(this.#all());
  }

  remove(...objects: readonly KubernetesObject[]): void {
    for (const object of objects) {
      if (!this.#objects.delete(idOf(object))) throw new Error(`there is no ${idOf(object)}`);
    }
    this.#lab.tell(this.#all());
  }

  /** Makes a pod: its attachment, and its object with the allocated addresses, which {@link put} also gives to the nodes. */
  async pod(namespace: string, name: string, nodeName: NodeName, options: PodOptions = {}): Promise<ClusterPod> {
    const key = `${namespace}/${name}`;
    const place = await this.#lab.wire({ key, node: nodeName }, options.runtimeConfig);
    this.#objects.set(`Pod ${key}`, podManifest(place, nodeName, { labels: { name, ...options.labels } }));
    return { namespace: place.namespace, name, nodeName, addresses: place.addresses };
  }

  /** Resolves when both nodes have all objects in force. */
  async inForce(): Promise<void> {
    await this.#lab.apply(this.#all());
  }

  /** Whether the rules of Services of a node lead to a port of an address. */
  isEndpoint(node: NodeName, address: Address, port: number): boolean {
    const listing = this.nodes[node].node.exec("nft", ["list", "table", "inet", "drawbridge"]);
    return listing.includes(` : ${formatAddress(address)} . ${port}`);
  }

  /** Makes the router send packets for these addresses to a node. */
  route(addresses: Pair, to: WiredNode): void {
    for (const family of FAMILIES) {
      const gateway = to.addresses[family === 4 ? 0 : 1];
      this.nodes.router.route.request(newRoute(routeTo(hostCidr(addresses[family]), gateway)));
    }
  }

  /** Ends the daemons and removes everything. */
  close(): void {
    this.#lab.close();
  }

  #all(): readonly object[] {
    const namespaces = this.#namespaces.map((name) => namespaceManifest(name, { "kubernetes.io/metadata.name": name }));
    return [...this.#lab.nodeManifests(), ...namespaces, ...this.#objects.values()];
  }
}

/** Returns a pair of a node's addresses or of its gateways. */
export function pairFrom([v4, v6]: WiredNode["addresses"]): Pair {
  return { 4: v4, 6: v6 };
}

function idOf({ kind, metadata }: KubernetesObject): string {
  return `${kind} ${metadata.namespace ?? ""}/${metadata.name}`;
}
