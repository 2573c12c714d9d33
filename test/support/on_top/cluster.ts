import assert from "node:assert/strict";
import { podResult } from "../cni/add_result.ts";
import { type Address, formatAddress, FAMILIES } from "../../../kernel/ip/address.ts";
import { hostCidr, parseCidr } from "../../../kernel/ip/cidr.ts";
import { parseMac } from "../../../kernel/ip/mac.ts";
import { newRoute } from "../../../kernel/route/route.ts";
import { add, type Configuration } from "../../lab/cni.ts";
import { createLab, type Lab, type LabPod } from "../../lab/lab.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import { connect, routeTo, type TwoNodes, twoNodes, type WiredNode } from "../../lab/topology.ts";
import { countKinds, untilInForce } from "../policy/lab/in_force.ts";
import type { DaemonProcess } from "../daemon/policyd.ts";
import { PolicydNode } from "../daemon/policyd_node.ts";
import { type Pair, pairOf } from "../services/traffic_lab.ts";
import type { KubernetesObject, ServiceEndpoint } from "./services.ts";

/** The destinations to which pods keep their own address under masquerade. */
const CLUSTER_NETWORKS = ["10.244.0.0/16", "fd00:244::/32"];

export type NodeName = "node1" | "node2";

/** A pod of a Kubernetes namespace. Its labels are `app` and its name. */
export interface ClusterPod extends ServiceEndpoint {
  readonly namespace: LabPod;
  readonly nodeName: NodeName;
}

/** A machine outside of the cluster. */
export interface Stranger {
  readonly namespace: LabNamespace;
  readonly addresses: Pair;
}

/** Differences of a pod from one without labels of its own and without published ports. */
export interface PodOptions {
  readonly labels?: Readonly<Record<string, string>>;
  readonly runtimeConfig?: Configuration;
}

/**
 * Two nodes with a daemon each, which read the same objects, a router between them and a stranger behind the router.
 * Pods leave the cluster with their node's address.
 */
export class SmallCluster {
  readonly lab: Lab;
  readonly nodes: TwoNodes;
  readonly stranger: Stranger;
  readonly #policyd: Readonly<Record<NodeName, PolicydNode>>;
  readonly #daemons: Partial<Record<NodeName, DaemonProcess>> = {};
  readonly #objects = new Map<string, KubernetesObject>();

  private constructor(name: string) {
    this.lab = createLab(name);
    this.nodes = twoNodes(this.lab, { reversePathFilter: 1 });
    this.stranger = this.#wireStranger();
    this.#policyd = {
      node1: new PolicydNode(this.lab, this.nodes.node1),
      node2: new PolicydNode(this.lab, this.nodes.node2),
    };
    // By default the kernel sends a sender one refusal a second; here each probe waits for its own.
    for (const { node } of [this.nodes.node1, this.nodes.node2]) {
      for (const key of ["net/ipv4/icmp_ratelimit", "net/ipv6/icmp/ratelimit"]) node.writeSysctl(key, "0");
    }
  }

  /** Starts a cluster with these namespaces of Kubernetes, each with the label of its name. */
  static async start(name: string, namespaces: readonly string[]): Promise<SmallCluster> {
    const cluster = new SmallCluster(name);
    try {
      const nodes = (["node1", "node2"] as const).map((node) => cluster.#nodeObject(node));
      cluster.put(...nodes, ...namespaces.map(namespaceObject));
      await Promise.all(
        (["node1", "node2"] as const).map(async (node) => {
          cluster.#daemons[node] = await cluster.#policyd[node].start();
        }),
      );
      return cluster;
    } catch (error) {
      await cluster.close();
      throw error;
    }
  }

  /** Gives both nodes objects, which are new or replace others. */
  put(...objects: readonly KubernetesObject[]): void {
    for (const object of objects) {
      const file = fileOf(object);
      this.#objects.set(file, object);
      for (const policyd of Object.values(this.#policyd)) policyd.put(file, JSON.stringify(object));
    }
  }

  remove(...objects: readonly KubernetesObject[]): void {
    for (const object of objects) {
      const file = fileOf(object);
      if (!this.#objects.delete(file)) throw new Error(`there is no ${file}`);
      for (const policyd of Object.values(this.#policyd)) policyd.put(file, "");
    }
  }

  /** Makes a pod: its object, its attachment, and then its object with the allocated addresses. */
  pod(kubernetesNamespace: string, name: string, nodeName: NodeName, options: PodOptions = {}): ClusterPod {
    const namespace = this.lab.pod(name);
    const object = (podIPs: readonly object[]): KubernetesObject => ({
      apiVersion: "v1",
      kind: "Pod",
      metadata: { namespace: kubernetesNamespace, name, uid: `uid-${name}`, labels: { name, ...options.labels } },
      spec: { nodeName },
      status: { phase: "Running", podIPs },
    });
    this.put(object([]));
    const overrides: Configuration = {
      ...this.#policyd[nodeName].overrides,
      ipMasq: true,
      nonMasqueradeCIDRs: CLUSTER_NETWORKS,
      ...options.runtimeConfig,
    };
    const { ips } = podResult(add(this.nodes[nodeName], namespace, overrides, { podNamespace: kubernetesNamespace }));
    const [v4, v6] = ips.map(({ address }) => parseCidr(address).address);
    assert.ok(v4 !== undefined && v6 !== undefined);
    const addresses = { 4: v4, 6: v6 };
    this.put(object(FAMILIES.map((family) => ({ ip: formatAddress(addresses[family]) }))));
    return { namespace, name, nodeName, addresses };
  }

  /** All objects that the cluster was given. */
  get objects(): readonly KubernetesObject[] {
    return [...this.#objects.values()];
  }

  /**
   * Resolves when both nodes have the given objects in force. To wait for the change of an existing object, use {@link
   * until}.
   */
  async inForce(): Promise<void> {
    const counts = countKinds([...this.#objects.values()]);
    for (const node of ["node1", "node2"] as const) {
      const process = this.#daemons[node];
      if (process !== undefined) await untilInForce({ process, node: this.nodes[node].node }, counts);
    }
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
  async close(): Promise<void> {
    await Promise.all(Object.values(this.#policyd).map((policyd) => policyd.kill()));
    this.lab.destroy();
  }

  #nodeObject(name: NodeName): KubernetesObject {
    const addresses = this.nodes[name].addresses.map((address) => ({
      type: "InternalIP",
      address: formatAddress(address),
    }));
    return { apiVersion: "v1", kind: "Node", metadata: { name }, status: { addresses } };
  }

  #wireStranger(): Stranger {
    const namespace = this.lab.namespace("stranger");
    const addresses = pairOf("198.51.100.2", "2001:db8:53::2");
    const gateways = pairOf("198.51.100.1", "2001:db8:53::1");
    const prefixed = (pair: Pair) =>
      FAMILIES.map((family) => ({ address: pair[family], prefixLength: family === 4 ? 30 : 64 }));
    const { router } = this.nodes;
    connect(
      { namespace: router, link: "to-stranger", mac: parseMac("02:00:00:00:05:01"), addresses: prefixed(gateways) },
      { namespace, link: "eth0", mac: parseMac("02:00:00:00:05:02"), addresses: prefixed(addresses) },
    );
    for (const family of FAMILIES) namespace.route.request(newRoute(routeTo(undefined, gateways[family])));
    return { namespace, addresses };
  }
}

/** Returns a pair of a node's addresses or of its gateways. */
export function pairFrom([v4, v6]: WiredNode["addresses"]): Pair {
  return { 4: v4, 6: v6 };
}

function namespaceObject(name: string): KubernetesObject {
  const labels = { "kubernetes.io/metadata.name": name };
  return { apiVersion: "v1", kind: "Namespace", metadata: { name, labels } };
}

function fileOf({ kind, metadata }: KubernetesObject): string {
  return `${[kind, metadata.namespace ?? "", metadata.name].join("-").toLowerCase()}.json`;
}
