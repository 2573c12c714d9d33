import { type Address, familyOf, formatAddress } from "../../kernel/ip/address.ts";
import { addressKey } from "../../kernel/ip/address_key.ts";
import { type Cidr, formatCidr } from "../../kernel/ip/cidr.ts";
import type { Node } from "../model.ts";
import { internalAddresses, usableOf } from "./node_addresses.ts";
import { type ByNode, isLost, type JudgeOptions, type Problems, tell } from "./node_verdict.ts";
import { isReserved } from "./reserved_addresses.ts";
import { PrefixIndex } from "./prefix_index.ts";

/**
 * Returns the InternalIPs that are believed of each node (judgeNodes). All nodes have to choose the same one of a node's
 * addresses, so this node's own are judged like others': not used is an address in the node's own pod CIDR, as the
 * bridge's, and, where the node has a better one, an address that another Node names as well, as docker0's or a VIP, or
 * that is in a range of Services, as kube-ipvs0's, or in another Node's pod CIDR (D1).
 *
 * @param podCidrs the believed pod CIDRs
 */
export function believedAddresses(
  sorted: readonly Node[],
  podCidrs: ByNode<Cidr>,
  services: readonly Cidr[],
  { nodeName, earlier, now }: JudgeOptions,
  problems: Problems,
): ByNode<Address> {
  const pods = new PrefixIndex<string>();
  for (const [node, cidrs] of podCidrs) for (const cidr of cidrs) pods.set(cidr, node);
  const ranges = new PrefixIndex<Cidr>();
  for (const range of services) ranges.set(range, range);
  const holders = new Map<number | bigint, string[]>();
  const isWeak = (node: Node): boolean => node.name !== nodeName && isLost(node, now);
  for (const node of [...sorted].sort((a, b) => Number(isWeak(a)) - Number(isWeak(b)))) {
    for (const address of usableOf(node)) {
      const key = addressKey(address);
      const others = holders.get(key);
      if (others === undefined) holders.set(key, [node.name]);
      else if (!isWeak(node)) others.push(node.name);
    }
  }
  const holderOf = (address: Address): string | undefined => {
    const names = holders.get(addressKey(address)) ?? [];
    if (names.length < 2 || names.includes(nodeName)) return names.length < 2 ? names[0] : nodeName;
    return names.find((name) => earlier?.nodes.get(name)?.addresses.includes(address) === true);
  };
  const hasAnother = (node: Node, address: Address): boolean =>
    usableOf(node).some(
      (other) =>
        familyOf(other) === familyOf(address) &&
        holders.get(addressKey(other))?.length === 1 &&
        pods.find(other) === undefined &&
        ranges.find(other) === undefined,
    );
  const whyUnused = (object: Node, address: Address): string | undefined => {
    const node = object.name;
    if (isReserved(address)) return "is not an address of a node";
    const rivals = (holders.get(addressKey(address)) ?? []).filter((name) => name !== node);
    if (rivals[0] !== undefined && hasAnother(object, address)) return `is that of Node ${rivals[0]} too`;
    if (pods.find(address) === node) return `is in a pod CIDR of Node ${node}`;
    if (node === nodeName && !hasAnother(object, address)) return undefined;
    const holder = holderOf(address);
    if (holder === nodeName && node !== nodeName) return "is this node's";
    if (holder !== node) {
      return `is that of Node ${holder ?? rivals[0] ?? ""} too`;
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
        const why = whyUnused(node, address);
        if (why !== undefined) {
          tell(problems, node.name, `Node ${node.name}: InternalIP ${formatAddress(address)} ${why}; it is not used`);
        }
        return why === undefined;
      }),
    ]),
  );
}
