import { type Address, type Family, familyOf } from "../../kernel/ip/address.ts";
import type { Cidr } from "../../kernel/ip/cidr.ts";
import { type JudgedNode, type JudgedNodes, problemsIn } from "../../objects/nodes/node_verdict.ts";

/** The part of a Node that routes to it depend on. */
export interface Peer {
  readonly name: string;
  /** Its first InternalIP: the tunnel goes between these. */
  readonly primary: Address | undefined;
  /** Its first InternalIP of each family. */
  readonly addresses: Readonly<Record<Family, Address | undefined>>;
  /** All its InternalIPs. */
  readonly all: readonly Address[];
  /** Pod CIDRs that no other node has. */
  readonly podCidrs: readonly Cidr[];
}

/** The nodes and their pod CIDRs, as the Node objects say. */
export interface Peers {
  readonly own: Peer | undefined;
  readonly others: readonly Peer[];
  /** The parts of Node objects that are not used, in words. */
  readonly problems: readonly string[];
}

/** Returns this node and the others, sorted by name, from the verdicts on the Node objects. */
export function peersOf(judged: JudgedNodes, nodeName: string): Peers {
  const own = judged.nodes.get(nodeName);
  const others = [...judged.nodes.values()].filter((node) => node !== own).sort((a, b) => (a.name < b.name ? -1 : 1));
  return { own: own && peerOf(own), others: others.map(peerOf), problems: problemsIn(judged) };
}

/** Returns a node as a peer. */
export function peerOf({ name, addresses, podCidrs }: JudgedNode): Peer {
  const first = (family: Family): Address | undefined => addresses.find((address) => familyOf(address) === family);
  return Object.freeze({
    name,
    primary: addresses[0],
    addresses: Object.freeze({ 4: first(4), 6: first(6) }),
    all: addresses,
    podCidrs,
  });
}
