import { type Address, compareAddresses, familyOf, formatAddress } from "../../kernel/ip/address.ts";
import {
  type Cidr,
  cidrContains,
  doOverlap,
  formatCidr,
  isSameCidr,
  lastAddress,
  networkAddress,
} from "../../kernel/ip/cidr.ts";
import type { Node } from "../model.ts";
import { bridgeAddress, internalAddresses, usableOf } from "./node_addresses.ts";
import { type ByNode, isLost, type JudgedNodes, type JudgeOptions, type Problems, tell } from "./node_verdict.ts";
import { ByAddress } from "./by_address.ts";
import { isReserved, unfitForPods } from "./reserved_addresses.ts";
import { addressKey } from "../../kernel/ip/address_key.ts";
import { PrefixIndex } from "./prefix_index.ts";

/**
 * Decides which pod CIDRs and InternalIPs are believed of each Node. All parts of the daemon use this verdict.
 *
 * A kubelet writes its own addresses, a controller the pod CIDRs. So an address must not take anything from another
 * node. It is not used if it is in a node's pod CIDR, in a range of Services, or an address of this node. A pod CIDR is
 * refused for another node's address only if that is a first address that was in use before. An address that two nodes
 * claim stays with the one that had it before, and is used for neither where none had it. Of overlapping pod CIDRs only
 * one that was used before counts. A pod CIDR that overlaps this node's own, or has its address, is refused. The address
 * of a bridge for pods or of a Service, which a kubelet may name, protects no node that has another one.
 */
export function judgeNodes(nodes: Iterable<Node>, options: JudgeOptions): JudgedNodes {
  const sorted = [...nodes].sort((a, b) => (a.name < b.name ? -1 : 1));
  const problems = new Map<string, string[]>();
  const own = sorted.find(({ name }) => name === options.nodeName);
  const services = usableRanges(options.serviceCidrs ?? [], own);
  const gateways = new Set(sorted.flatMap((node) => node.podCidrs.map(bridgeAddress)));
  const certain = (node: Node | undefined): readonly Address[] =>
    certainOf(node, (address) => gateways.has(address) || services.some((range) => cidrContains(range, address)));
  const podCidrs = believedCidrs(sorted, certain, services, options, problems);
  const pods = new PrefixIndex<string>();
  for (const [node, cidrs] of podCidrs) for (const cidr of cidrs) pods.set(cidr, node);
  const addresses = believedAddresses(sorted, pods, services, options, problems);
  const judged = sorted.map(({ name, addresses: named }) => {
    const believed = addresses.get(name) ?? [];
    const ofOthersPods = named.flatMap(({ address }) =>
      believed.includes(address) || (pods.find(address) ?? name) === name ? [] : [address],
    );
    return [
      name,
      Object.freeze({ name, addresses: believed, podCidrs: podCidrs.get(name) ?? [], ofOthersPods }),
    ] as const;
  });
  return Object.freeze({ nodes: new Map(judged), problemsOf: problems });
}

/** Returns the ranges of Services to check Nodes with, without a mistaken one that has this node's own address. */
export function usableRanges(serviceCidrs: readonly Cidr[], own: Node | undefined): readonly Cidr[] {
  const addresses = certainOf(own, (address) => serviceCidrs.some((range) => cidrContains(range, address)));
  return serviceCidrs.filter((range) => !addresses.some((address) => cidrContains(range, address)));
}

/** Returns a node's addresses without those in doubt, unless it has no other one of their family. */
function certainOf(node: Node | undefined, isInDoubt: (address: Address) => boolean): readonly Address[] {
  const all = usableOf(node);
  const certain = all.filter((address) => !isInDoubt(address));
  return all.filter(
    (address) => certain.includes(address) || !certain.some((one) => familyOf(one) === familyOf(address)),
  );
}

/** The rank of a claim: it is not refused because of a claim with a lower rank. */
const RANK = { lost: -1, new: 0, earlier: 1, own: 2 } as const;

/** Returns the addresses of a node that no pod CIDR of another one may have. */
type Certain = (node: Node | undefined) => readonly Address[];

interface Claimant {
  readonly node: string;
  readonly rank: number;
}

/** All claims to one prefix; once sorted, the highest rank comes first. */
interface Claimed {
  readonly cidr: Cidr;
  readonly first: Address;
  readonly last: Address;
  readonly claimants: Claimant[];
}

/** Returns the pod CIDRs that are believed of each node (judgeNodes). */
function believedCidrs(
  sorted: readonly Node[],
  certain: Certain,
  services: readonly Cidr[],
  { nodeName, ownCidrs = [], earlier, now }: JudgeOptions,
  problems: Problems,
): ByNode<Cidr> {
  const claimed = new Map<string, Claimed>();
  const refuse = (node: string, cidr: Cidr, why: string): void =>
    tell(problems, node, `Node ${node}: pod CIDR ${formatCidr(cidr)} ${why}; it is not used`);
  const lost = new Set(sorted.filter((node) => isLost(node, now)).map(({ name }) => name));
  const ready = sorted.filter(({ name }) => !lost.has(name));
  const reached = firstAddresses(ready, certain, earlier);
  const own = sorted.find(({ name }) => name === nodeName);
  const ownAddresses = certain(own);
  const whyUnfit = (node: string, cidr: Cidr, hadIt: boolean): string | undefined => {
    const unfit = unfitForPods(cidr);
    if (unfit !== undefined || node === nodeName) return unfit;
    const taken = hadIt ? undefined : firstIn(reached, cidr, node);
    if (taken !== undefined) return `has the address ${formatAddress(taken.address)} of Node ${taken.node}`;
    const address = ownAddresses.find((one) => cidrContains(cidr, one));
    if (address !== undefined) return `has the address ${formatAddress(address)} of Node ${nodeName}`;
    const range = services.find((one) => doOverlap(one, cidr));
    return range === undefined ? undefined : `overlaps ${formatCidr(range)}, a range of Services`;
  };
  const claim = (node: string, cidr: Cidr): void => {
    const key = formatCidr(cidr);
    const hadIt = earlier?.nodes.get(node)?.podCidrs.some((one) => isSameCidr(one, cidr)) === true;
    const unfit = whyUnfit(node, cidr, hadIt);
    if (unfit !== undefined) return refuse(node, cidr, unfit);
    const usual = hadIt ? RANK.earlier : RANK.new;
    const rank = node === nodeName ? RANK.own : lost.has(node) ? RANK.lost : usual;
    const entry = claimed.get(key) ?? { cidr, first: networkAddress(cidr), last: lastAddress(cidr), claimants: [] };
    if (!entry.claimants.some((one) => one.node === node)) entry.claimants.push({ node, rank });
    claimed.set(key, entry);
  };
  if (own === undefined || own.podCidrs.length === 0) for (const cidr of ownCidrs) claim(nodeName, cidr);
  for (const { name, podCidrs } of sorted) for (const cidr of podCidrs) claim(name, cidr);
  const refused = refusedClaims([...claimed.values()], refuse);
  const believed = new Map<string, Cidr[]>();
  for (const { name, podCidrs } of sorted) {
    const distinct = new Map(podCidrs.map((cidr) => [formatCidr(cidr), cidr]));
    believed.set(
      name,
      [...distinct].flatMap(([key, cidr]) => (claimed.has(key) && isHeld(key, name) ? [cidr] : [])),
    );
  }
  if (!believed.get(nodeName)?.length)
    believed.set(
      nodeName,
      ownCidrs.filter((cidr) => isHeld(formatCidr(cidr), nodeName)),
    );
  return believed;

  function isHeld(key: string, node: string): boolean {
    return claimed.get(key)?.claimants.some((one) => one.node === node) === true && !refused.has(`${node} ${key}`);
  }
}

interface Reached {
  readonly node: string;
  readonly address: Address;
}

/** Returns each node's first address of the earlier verdict, which tunnel and routes used, if it is still its own. */
function firstAddresses(
  nodes: readonly Node[],
  certain: Certain,
  earlier: JudgeOptions["earlier"],
): ByAddress<Reached> {
  const reached = new ByAddress<Reached>(({ address }) => address);
  for (const node of nodes) {
    const address = earlier?.nodes.get(node.name)?.addresses[0];
    if (address !== undefined && certain(node).includes(address)) reached.add({ node: node.name, address });
  }
  return reached;
}

/** Returns the first address in a prefix that belongs to another node. */
function firstIn(reached: ByAddress<Reached>, cidr: Cidr, node: string): Reached | undefined {
  const place = reached.placeOf(networkAddress(cidr));
  // No two nodes share an address, so at most one of two is the node's own.
  return [reached.at(place), reached.at(place + 1)].find(
    (one) => one !== undefined && one.node !== node && cidrContains(cidr, one.address),
  );
}

/** @returns the node and the prefix of each claim that is refused */
function refusedClaims(
  claimed: readonly Claimed[],
  refuse: (node: string, cidr: Cidr, why: string) => void,
): ReadonlySet<string> {
  const refused = new Set<string>();
  /** Refuses each claim to one prefix that does not rank higher than another node's claim to an overlapping prefix. */
  const compare = (one: Claimed, other: Claimed): void => {
    for (const { node, rank } of one.claimants) {
      // The first two are enough: at most one of them is of the same node.
      const rival = other.claimants.slice(0, 2).find((claimant) => claimant.node !== node);
      const key = `${node} ${formatCidr(one.cidr)}`;
      if (rival === undefined || rival.rank < rank || refused.has(key)) continue;
      refused.add(key);
      refuse(node, one.cidr, `overlaps ${formatCidr(other.cidr)} of Node ${rival.node}`);
    }
  };
  for (const { claimants } of claimed) claimants.sort((a, b) => b.rank - a.rank);
  const sorted = [...claimed].sort((a, b) => compareAddresses(a.first, b.first) || compareAddresses(b.last, a.last));
  /** The prefixes around the last one, each inside the one before: of two that overlap one holds the other. */
  const open: Claimed[] = [];
  for (const one of sorted) {
    for (
      let around = open.at(-1);
      around !== undefined && !cidrContains(around.cidr, one.first);
      around = open.at(-1)
    ) {
      open.pop();
    }
    compare(one, one);
    for (const around of open) {
      compare(one, around);
      compare(around, one);
    }
    open.push(one);
  }
  return refused;
}

/**
 * Returns the InternalIPs that are believed of each node (judgeNodes). All nodes have to choose the same one of a node's
 * addresses, so this node's own are judged like others': not used is an address in the node's own pod CIDR, as the
 * bridge's, and, where the node has a better one, an address that another Node names as well, as docker0's or a VIP, or
 * that is in a range of Services, as kube-ipvs0's, or in another Node's pod CIDR (D1).
 *
 * @param pods the nodes by their believed pod CIDRs
 */
function believedAddresses(
  sorted: readonly Node[],
  pods: PrefixIndex<string>,
  services: readonly Cidr[],
  { nodeName, earlier, now }: JudgeOptions,
  problems: Problems,
): ByNode<Address> {
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
