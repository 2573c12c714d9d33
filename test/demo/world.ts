import type { Address, Family } from "../../kernel/ip/address.ts";
import { familyOf, formatAddress } from "../../kernel/ip/address.ts";
import { dumpAddresses, parseInterfaceAddress } from "../../kernel/route/interface_address.ts";
import type { CallOutcome } from "../lab/cni.ts";
import { podCall, startPlugin } from "../lab/cni.ts";
import type { Lab, LabPod } from "../lab/lab.ts";
import type { LabNamespace } from "../lab/namespace.ts";
import type { TwoNodes } from "../lab/topology.ts";
import type { Cluster } from "./cluster.ts";
import type { NodeDaemon } from "./daemon.ts";
import type { Party } from "./matrix.ts";

export const NODES = ["node1", "node2"] as const;

export type NodeName = (typeof NODES)[number];

/** Who a pod is in the cluster. */
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

/** Which pods run where. */
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

/** The namespaces of the pods. */
export const POD_NAMESPACES = ["default", "monitoring"] as const;

/** The bridge of each node (test/lab/cni.ts). */
export const BRIDGE = "cni0";

const SCOPE_UNIVERSE = 0;

/** A pod the plugin has wired. */
export interface DemoPod extends PodIdentity {
  readonly node: NodeName;
  readonly namespace: LabPod;
  readonly addresses: Readonly<Record<Family, Address>>;
  /** From starting the plugin to its end. */
  readonly addMilliseconds: number;
}

/** Two nodes with their daemons and a router. */
export interface Ground {
  readonly nodes: TwoNodes;
  readonly daemons: Readonly<Record<NodeName, NodeDaemon>>;
}

/** The ground with the pods on it. */
export interface World extends Ground {
  readonly pods: readonly DemoPod[];
}

/**
 * Adds the pods one after another, by the executable, and tells the cluster of each.
 *
 * @param onPod told of each pod that is wired
 * @throws Error with the plugin's own words when an ADD fails
 */
export async function addPods(
  lab: Lab,
  ground: Ground,
  cluster: Cluster,
  onPod: (pod: DemoPod) => void,
): Promise<readonly DemoPod[]> {
  const pods: DemoPod[] = [];
  for (const node of NODES) {
    for (const pod of PODS[node]) {
      const namespace = lab.pod(pod.name);
      const { milliseconds } = await call("ADD", ground, node, namespace, pod);
      const wired = { ...pod, node, namespace, addresses: ownAddresses(namespace), addMilliseconds: milliseconds };
      pods.push(wired);
      cluster.addPod(wired);
      onPod(wired);
    }
  }
  return pods;
}

/**
 * Takes the pods away again, by the executable.
 *
 * @returns the milliseconds of each DEL, by pod
 */
export async function deletePods(world: World): Promise<ReadonlyMap<string, number>> {
  const milliseconds = new Map<string, number>();
  for (const pod of world.pods) {
    const outcome = await call("DEL", world, pod.node, pod.namespace, pod);
    milliseconds.set(pod.name, outcome.milliseconds);
  }
  return milliseconds;
}

/** Pods and nodes, as the expectation sees them. */
export function partiesOf(world: World): readonly Party[] {
  const pods = world.pods.map(({ name, node, addresses }) => {
    const texts = { 4: formatAddress(addresses[4]), 6: formatAddress(addresses[6]) };
    return { name, node, isPod: true, addresses: texts, localAddresses: texts };
  });
  const nodes = NODES.map((name) => {
    const wired = world.nodes[name];
    return {
      name,
      node: name,
      isPod: false,
      addresses: { 4: formatAddress(wired.addresses[0]), 6: formatAddress(wired.addresses[1]) },
      localAddresses: { 4: formatAddress(wired.gateways[0]), 6: formatAddress(wired.gateways[1]) },
    };
  });
  return [...pods, ...nodes];
}

/** The namespace of a pod, a node or the router by its name. */
export function namespaceOf(world: World, name: string): LabNamespace {
  const pod = world.pods.find((candidate) => candidate.name === name);
  if (pod !== undefined) return pod.namespace;
  if (name === "router") return world.nodes.router;
  const node = NODES.find((candidate) => candidate === name);
  if (node === undefined) throw new Error(`the demo has no ${name}`);
  return world.nodes[node].node;
}

async function call(
  command: "ADD" | "DEL",
  ground: Ground,
  name: NodeName,
  pod: LabPod,
  { podNamespace }: PodIdentity,
): Promise<CallOutcome> {
  const wired = ground.nodes[name];
  const overrides = { policyd: { socket: ground.daemons[name].socketPath } };
  const outcome = await startPlugin(wired.node, podCall(command, wired, pod, overrides, { podNamespace })).outcome;
  if (outcome.exitCode === 0) return outcome;
  const words = outcome.error?.msg ?? `${outcome.stdout}${outcome.stderr}`.trim();
  throw new Error(`${command} ${pod.name}: the plugin ended with ${outcome.signal ?? outcome.exitCode}: ${words}`);
}

/** The addresses the pod itself sees on its interface, whatever the plugin said. */
function ownAddresses(pod: LabPod): Readonly<Record<Family, Address>> {
  const { index } = pod.link("eth0");
  const found = pod.route
    .dump(dumpAddresses({ index }))
    .flatMap((message) => parseInterfaceAddress(message) ?? [])
    .filter(({ scope }) => scope === SCOPE_UNIVERSE)
    .map(({ address }) => address.address);
  const [v4, v6] = ([4, 6] as const).map((family) => found.find((address) => familyOf(address) === family));
  if (v4 === undefined || v6 === undefined)
    throw new Error(
      `${pod.name}: eth0 lacks an address after ADD: has ${found.map(formatAddress).join(", ") || "none"}`,
    );
  return { 4: v4, 6: v6 };
}
