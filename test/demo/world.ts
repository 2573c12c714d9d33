import { type Address, type Family, familyOf, formatAddress, FAMILIES } from "../../kernel/ip/address.ts";
import { listAddresses } from "../../kernel/route/interface_address.ts";
import { type Cluster, namespaceObject } from "../lab/cluster/cluster.ts";
import type { Sandbox } from "../lab/cluster/runtime.ts";
import type { LabNode, LabPod } from "../lab/lab.ts";
import type { LabNamespace } from "../lab/namespace.ts";

/** The port on which every pod answers. */
export const PORT = 8080;

export const NODES = ["node1", "node2"] as const;

export type NodeName = (typeof NODES)[number];

/** The identity of a pod in the cluster. */
export interface PodIdentity {
  readonly name: string;
  readonly podNamespace: string;
  readonly labels: Readonly<Record<string, string>>;
}

const identity = (name: string, podNamespace: string, role: string): PodIdentity => ({
  name,
  podNamespace,
  labels: { app: name, role },
});

/** The pods of each node. */
const PODS: Readonly<Record<NodeName, readonly PodIdentity[]>> = {
  node1: [
    identity("pod-a", "default", "frontend"),
    identity("pod-b", "default", "backend"),
    identity("pod-c", "default", "backend"),
  ],
  node2: [
    identity("pod-d", "monitoring", "frontend"),
    identity("pod-e", "default", "backend"),
    identity("pod-f", "monitoring", "probe"),
  ],
};

/** The bridge of each node, as the configuration that the daemon installs names it. */
export const BRIDGE = "drawbridge0";

const SCOPE_UNIVERSE = 0;

/** An attached pod. */
export interface DemoPod extends PodIdentity {
  readonly node: NodeName;
  readonly namespace: LabPod;
  readonly addresses: Readonly<Record<Family, Address>>;
  /** The pod's sandbox in its node's container runtime. */
  readonly sandbox: Sandbox;
  /** The time in which the network's plugin attached it. */
  readonly addMilliseconds: number;
}

/** Two nodes of a cluster, with a router and the pods. */
export interface World {
  readonly cluster: Cluster;
  readonly pods: readonly DemoPod[];
}

/** Adds two nodes to a cluster, with a router between them that does not know pods, and the namespace that it lacks. */
export async function startNodes(cluster: Cluster): Promise<void> {
  await cluster.apply(namespaceObject("monitoring"));
  await cluster.addNode("node1", "lan");
  await cluster.addNode("node2", "behind");
  await cluster.untilReady();
}

/**
 * Creates the pods one after another.
 *
 * @param onPod is called with each pod that runs
 * @throws Error with the plugin's own message when an ADD fails
 */
export async function addPods(cluster: Cluster, onPod: (name: string) => void): Promise<readonly DemoPod[]> {
  const pods: DemoPod[] = [];
  for (const node of NODES) {
    for (const pod of PODS[node]) {
      const { name, podNamespace, labels } = pod;
      const ports = [{ name: "web", containerPort: PORT }];
      const running = await cluster.createPod({ name, namespace: podNamespace, labels, node, ports });
      const { pod: namespace, sandbox, addMilliseconds } = running;
      pods.push({ ...pod, node, namespace, sandbox, addMilliseconds, addresses: ownAddresses(namespace) });
      onPod(name);
    }
  }
  return pods;
}

/**
 * Detaches the pods. Their sandboxes stay, so that only the plugin can have removed what is gone from the nodes
 * afterwards.
 *
 * @returns the milliseconds of each DEL, by pod
 */
export async function detachPods({ cluster, pods }: World): Promise<ReadonlyMap<string, number>> {
  const milliseconds = new Map<string, number>();
  for (const { name, node, sandbox } of pods) {
    milliseconds.set(name, await cluster.node(node).runtime.detach(sandbox));
  }
  return milliseconds;
}

/** Returns the addresses of a node's uplink and bridge. */
export function nodeAddresses(
  { cluster }: World,
  name: NodeName,
): Readonly<Record<"uplink" | "bridge", Readonly<Record<Family, Address>>>> {
  const node = cluster.node(name);
  return { uplink: node.machine.addresses, bridge: { 4: node.gateway(4), 6: node.gateway(6) } };
}

/** Returns the namespace of a node. */
export function nodeOf({ cluster }: World, name: NodeName): LabNode {
  return cluster.node(name).namespace;
}

/** Returns a pod. @throws Error when there is none of this name */
export function podOf({ pods }: World, name: string): DemoPod {
  const pod = pods.find((one) => one.name === name);
  if (pod === undefined) throw new Error(`the demo has no ${name}`);
  return pod;
}

/** Returns the namespace of a pod, a node or the router by its name. */
export function namespaceOf(world: World, name: string): LabNamespace {
  const pod = world.pods.find((candidate) => candidate.name === name);
  if (pod !== undefined) return pod.namespace;
  if (name === "router") return world.cluster.fabric.router;
  const node = NODES.find((candidate) => candidate === name);
  if (node === undefined) throw new Error(`the demo has no ${name}`);
  return nodeOf(world, node);
}

/** Returns the addresses that the pod itself sees on its interface, whatever the plugin reported. */
function ownAddresses(pod: LabPod): Readonly<Record<Family, Address>> {
  const { index } = pod.link("eth0");
  const found = listAddresses(pod.route, { index })
    .filter(({ scope }) => scope === SCOPE_UNIVERSE)
    .map(({ address }) => address.address);
  const [v4, v6] = FAMILIES.map((family) => found.find((address) => familyOf(address) === family));
  if (v4 === undefined || v6 === undefined)
    throw new Error(
      `${pod.name}: eth0 lacks an address after ADD: has ${found.map(formatAddress).join(", ") || "none"}`,
    );
  return { 4: v4, 6: v6 };
}
