import { type Address, formatAddress } from "../../kernel/ip/address.ts";
import { addressKey } from "../../kernel/ip/address_key.ts";
import { type Cidr, formatCidr } from "../../kernel/ip/cidr.ts";
import type { Node } from "../model.ts";
import { internalAddresses, isReserved, usableOf } from "./node_claims.ts";
import { type ByNode, type JudgeOptions, type Problems, tell } from "./node_verdict.ts";
import { PrefixIndex } from "./prefix_index.ts";

/** Returns the InternalIPs that are believed of each node (judgeNodes). @param podCidrs the believed pod CIDRs */
export function believedAddresses(
  sorted: readonly Node[],
  podCidrs: ByNode<Cidr>,
  services: readonly Cidr[],
  { nodeName, earlier }: JudgeOptions,
  problems: Problems,
): ByNode<Address> {
  const pods = new PrefixIndex<string>();
  for (const [node, cidrs] of podCidrs) for (const cidr of cidrs) pods.set(cidr, node);
  const ranges = new PrefixIndex<Cidr>();
  for (const range of services) ranges.set(range, range);
  const holders = new Map<number | bigint, string[]>();
  for (const node of sorted) {
    for (const address of usableOf(node)) {
      const key = addressKey(address);
      const others = holders.get(key);
      if (others === undefined) holders.set(key, [node.name]);
      else others.push(node.name);
    }
  }
  const holderOf = (address: Address): string | undefined => {
    const names = holders.get(addressKey(address)) ?? [];
    if (names.length < 2 || names.includes(nodeName)) return names.length < 2 ? names[0] : nodeName;
    return names.find((name) => earlier?.nodes.get(name)?.addresses.includes(address) === true);
  };
  const whyUnused = (node: string, address: Address): string | undefined => {
    if (isReserved(address)) return "is not an address of a node";
    if (node === nodeName) return undefined;
    const holder = holderOf(address);
    if (holder === nodeName) return "is this node's";
    if (holder !== node) {
      const other = holder ?? holders.get(addressKey(address))?.find((name) => name !== node) ?? "";
      return `is that of Node ${other} too`;
    }
    const range = ranges.find(address);
    if (range !== undefined) return `is in ${formatCidr(range)}, a range of Services`;
    const whose = pods.find(address);
    return whose === undefined ? undefined : `is in a pod CIDR of Node ${whose}`;
  };
  return new Map(
    sorted.map((node) => [
      node.name,
      internalAddresses(node).filter((address) => {
        const why = whyUnused(node.name, address);
        if (why !== undefined) {
          tell(problems, node.name, `Node ${node.name}: InternalIP ${formatAddress(address)} ${why}; it is not used`);
        }
        return why === undefined;
      }),
    ]),
  );
}
