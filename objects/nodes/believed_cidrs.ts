import { type Address, compareAddresses, formatAddress } from "../../kernel/ip/address.ts";
import {
  type Cidr,
  cidrContains,
  doOverlap,
  formatCidr,
  isSameCidr,
  lastAddress,
  networkAddress,
} from "../../kernel/ip/cidr.ts";
import { ByAddress } from "./by_address.ts";
import type { Node } from "../model.ts";
import { unfitForPods } from "./reserved_addresses.ts";
import { type ByNode, isLost, type JudgeOptions, type Problems, tell } from "./node_verdict.ts";

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
export function believedCidrs(
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
