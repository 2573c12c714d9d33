import type { Address } from "../../../kernel/ip/address.ts";
import { type Cidr, cidrContains } from "../../../kernel/ip/cidr.ts";
import { judgeNodes } from "../../nodes/judged_nodes.ts";
import type { Node } from "../../model.ts";
import type { Packet } from "./packet.ts";
import type { ServiceWorld } from "./world.ts";

/** The senders that Services distinguish. */
export type Sender = "node" | "local pod" | "other pod" | "outside";

/**
 * Returns the kind of a packet's sender. A process of the node is never one of its pods, whatever address it uses; a
 * pod of another node is recognised by the networks of the cluster's pods.
 */
export function senderOf(world: ServiceWorld, { entry, source }: Packet): Sender {
  if (entry === "node") return "node";
  if (entry === "pod") return "local pod";
  return isOfPods(world, source) ? "other pod" : "outside";
}

/** Returns whether an address is in a network of the pods of any node, as the addresses of the nodes' bridges are. */
export function isOfPods({ nodes, nodeName, configuration }: ServiceWorld, address: Address): boolean {
  const networks = [...configuration.clusterCidrs, ...podCidrsOf(nodes, nodeName)];
  return networks.some((network) => cidrContains(network, address));
}

/** Cached, since each packet needs it and it is the same for all packets of a world. */
const believed = new WeakMap<readonly Node[], Map<string, readonly Cidr[]>>();

function podCidrsOf(nodes: readonly Node[], nodeName: string): readonly Cidr[] {
  const ofNodes = believed.get(nodes) ?? new Map<string, readonly Cidr[]>();
  believed.set(nodes, ofNodes);
  const known =
    ofNodes.get(nodeName) ?? [...judgeNodes(nodes, { nodeName }).nodes.values()].flatMap(({ podCidrs }) => podCidrs);
  ofNodes.set(nodeName, known);
  return known;
}
