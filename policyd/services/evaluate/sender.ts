import type { Address } from "../../../kernel/ip/address.ts";
import type { Cidr } from "../../../kernel/ip/cidr.ts";
import { cidrContains } from "../../../kernel/ip/cidr.ts";
import { judgeNodes } from "../../cluster/judged_nodes.ts";
import type { Node } from "../../cluster/model.ts";
import type { Packet } from "./packet.ts";
import type { ServiceWorld } from "./world.ts";

/** Who sent a packet, as far as Services tell senders apart. */
export type Sender = "node" | "local pod" | "other pod" | "outside";

/**
 * Who sent a packet. A process of the node is none of its pods, whatever address it takes; a pod of another node is known
 * by the networks pods have.
 */
export function senderOf(world: ServiceWorld, { entry, source }: Packet): Sender {
  if (entry === "node") return "node";
  if (entry === "pod") return "local pod";
  return isOfPods(world, source) ? "other pod" : "outside";
}

/** Whether an address is in a network of the pods of any node, as those of the nodes' bridges are. */
export function isOfPods({ nodes, nodeName, configuration }: ServiceWorld, address: Address): boolean {
  const networks = [...configuration.clusterCidrs, ...podCidrsOf(nodes, nodeName)];
  return networks.some((network) => cidrContains(network, address));
}

/** Asked for each packet, and the same for all of a world. */
const believed = new WeakMap<readonly Node[], Map<string, readonly Cidr[]>>();

function podCidrsOf(nodes: readonly Node[], nodeName: string): readonly Cidr[] {
  const ofNodes = believed.get(nodes) ?? new Map<string, readonly Cidr[]>();
  believed.set(nodes, ofNodes);
  const known =
    ofNodes.get(nodeName) ?? [...judgeNodes(nodes, { nodeName }).nodes.values()].flatMap(({ podCidrs }) => podCidrs);
  ofNodes.set(nodeName, known);
  return known;
}
