import type { Address, Family } from "../../kernel/ip/address.ts";
import { familyOf } from "../../kernel/ip/address.ts";
import type { Cidr } from "../../kernel/ip/cidr.ts";
import type { JudgedNode, JudgedNodes } from "../cluster/node_verdict.ts";
import { problemsIn } from "../cluster/node_verdict.ts";

/** A node, as far as others send packets to it. */
export interface Peer {
  readonly name: string;
  /** Its first InternalIP: the tunnel goes between these. */
  readonly primary: Address | undefined;
  /** Its first InternalIP of each family. */
  readonly addresses: Readonly<Record<Family, Address | undefined>>;
  /** Those nobody else has. */
  readonly podCidrs: readonly Cidr[];
}

/** What the Node objects say about where pods are. */
export interface Peers {
  readonly own: Peer | undefined;
  readonly others: readonly Peer[];
  /** What of the Node objects is not used, in words. */
  readonly problems: readonly string[];
}

/** This node and the others by their names, of what is believed of them. */
export function peersOf(judged: JudgedNodes, nodeName: string): Peers {
  const own = judged.nodes.get(nodeName);
  const others = [...judged.nodes.values()].filter((node) => node !== own).sort((a, b) => (a.name < b.name ? -1 : 1));
  return { own: own && peerOf(own), others: others.map(peerOf), problems: problemsIn(judged) };
}

/** A node of which this is believed. */
export function peerOf({ name, addresses, podCidrs }: JudgedNode): Peer {
  const first = (family: Family): Address | undefined => addresses.find((address) => familyOf(address) === family);
  return Object.freeze({
    name,
    primary: addresses[0],
    addresses: Object.freeze({ 4: first(4), 6: first(6) }),
    podCidrs,
  });
}
