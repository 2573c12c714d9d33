import type { Address } from "../../kernel/ip/address.ts";
import { compareAddresses, formatAddress } from "../../kernel/ip/address.ts";
import type { Cidr } from "../../kernel/ip/cidr.ts";
import {
  cidrContains,
  cidrFamily,
  formatCidr,
  IPV4_MAPPED,
  lastAddress,
  networkAddress,
  parseCidr,
} from "../../kernel/ip/cidr.ts";
import type { Node } from "./model.ts";
import { PrefixIndex } from "./prefix_index.ts";

/** What of a Node object is believed. */
export interface JudgedNode {
  readonly name: string;
  /** Its InternalIPs, in its order; no two nodes have one. */
  readonly addresses: readonly Address[];
  /** No two nodes' overlap. */
  readonly podCidrs: readonly Cidr[];
}

export interface JudgedNodes {
  /** By name, in its order; where this node has none, it is not among them. */
  readonly nodes: ReadonlyMap<string, JudgedNode>;
  /** What of the Node objects is not used, in words. */
  readonly problems: readonly string[];
}

export interface JudgeOptions {
  /** This node: what is its own nobody takes away. */
  readonly nodeName: string;
  /** This node's pod CIDRs where its Node has none. */
  readonly ownCidrs?: readonly Cidr[];
  /** Where Services have their addresses: no node and no pod has one of these. */
  readonly serviceCidrs?: readonly Cidr[];
  /** An earlier verdict: what a node had in it stays its own, whoever claims it since. */
  readonly earlier?: JudgedNodes | undefined;
}

/** Where no node and no pod can be: what would take addresses away that the node itself needs. */
const RESERVED = [
  ...["0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/3", "::/127", "fe80::/10", "ff00::/8"].map((text) =>
    parseCidr(text),
  ),
  IPV4_MAPPED,
];

/** The networks of all pods of a cluster are smaller than a prefix of this length, so a node's are. */
const SHORTEST_PREFIX = { 4: 8, 6: 16 } as const;

/** Whether no node can have an address, whatever its Node object says. */
export function isReserved(address: Address): boolean {
  return RESERVED.some((cidr) => cidrContains(cidr, address));
}

/** Why no node's pods can have their addresses from a prefix; undefined where they can. */
export function unfitForPods(cidr: Cidr): string | undefined {
  const shortest = SHORTEST_PREFIX[cidrFamily(cidr)];
  if (cidr.prefixLength < shortest) return `is larger than a /${shortest}`;
  const reserved = RESERVED.find((other) => doOverlap(other, cidr));
  return reserved === undefined ? undefined : `overlaps ${formatCidr(reserved)}`;
}

export function doOverlap(a: Cidr, b: Cidr): boolean {
  return cidrContains(a, networkAddress(b)) || cidrContains(b, networkAddress(a));
}

/**
 * Judges the Nodes: which pod CIDRs and which InternalIPs are whose. All parts of the daemon that believe Nodes believe this.
 *
 * A kubelet writes its own addresses, a controller the pod CIDRs. So an address costs no other node what that has: one in a
 * node's pod CIDR, in a range of Services, or that this node has, is not used; a pod CIDR is refused only for a first address
 * that was in use before it. An address that two nodes claim stays with the one that had it, and is neither's where none had.
 * Of pod CIDRs that overlap none counts but the one that did before. What overlaps this node's own, or has its address, is
 * refused.
 */
export function judgeNodes(nodes: Iterable<Node>, options: JudgeOptions): JudgedNodes {
  const sorted = [...nodes].sort((a, b) => (a.name < b.name ? -1 : 1));
  const problems: string[] = [];
  const ownAddresses = usableOf(sorted.find(({ name }) => name === options.nodeName));
  // A range with this node's own address is a mistake in the configuration, and says nothing about others.
  const services = (options.serviceCidrs ?? []).filter(
    (range) => !ownAddresses.some((one) => cidrContains(range, one)),
  );
  const podCidrs = believedCidrs(sorted, ownAddresses, services, options, problems);
  const addresses = believedAddresses(sorted, podCidrs, services, options, problems);
  const judged = sorted.map(
    ({ name }) =>
      [
        name,
        Object.freeze({ name, addresses: addresses.get(name) ?? [], podCidrs: podCidrs.get(name) ?? [] }),
      ] as const,
  );
  return Object.freeze({ nodes: new Map(judged), problems: Object.freeze(problems) });
}

type ByNode<T> = ReadonlyMap<string, readonly T[]>;

/** How well a claim is founded: none is refused for one that is founded worse. */
const RANK = { new: 0, earlier: 1, own: 2 } as const;

interface Claimant {
  readonly node: string;
  readonly rank: number;
}

/** All that claim one prefix, the best founded first. */
interface Claimed {
  readonly cidr: Cidr;
  readonly first: Address;
  readonly last: Address;
  readonly claimants: Claimant[];
}

function believedCidrs(
  sorted: readonly Node[],
  ownAddresses: readonly Address[],
  services: readonly Cidr[],
  { nodeName, ownCidrs = [], earlier }: JudgeOptions,
  problems: string[],
): ByNode<Cidr> {
  const claimed = new Map<string, Claimed>();
  const tell = (node: string, cidr: Cidr, why: string): void => {
    problems.push(`Node ${node}: pod CIDR ${formatCidr(cidr)} ${why}; it is not used`);
  };
  const reached = firstAddresses(sorted, earlier);
  const whyUnfit = (node: string, cidr: Cidr, hadIt: boolean): string | undefined => {
    const unfit = unfitForPods(cidr);
    if (unfit !== undefined || node === nodeName) return unfit;
    const taken = hadIt ? undefined : reached.find((one) => one.node !== node && cidrContains(cidr, one.address));
    if (taken !== undefined) return `has the address ${formatAddress(taken.address)} of Node ${taken.node}`;
    const address = ownAddresses.find((one) => cidrContains(cidr, one));
    if (address !== undefined) return `has the address ${formatAddress(address)} of Node ${nodeName}`;
    const range = services.find((one) => doOverlap(one, cidr));
    return range === undefined ? undefined : `overlaps ${formatCidr(range)}, a range of Services`;
  };
  const claim = (node: string, cidr: Cidr): void => {
    const key = formatCidr(cidr);
    const hadIt = earlier?.nodes.get(node)?.podCidrs.some((one) => formatCidr(one) === key) === true;
    const unfit = whyUnfit(node, cidr, hadIt);
    if (unfit !== undefined) return tell(node, cidr, unfit);
    const rank = node === nodeName ? RANK.own : hadIt ? RANK.earlier : RANK.new;
    const entry = claimed.get(key) ?? { cidr, first: networkAddress(cidr), last: lastAddress(cidr), claimants: [] };
    if (!entry.claimants.some((one) => one.node === node)) entry.claimants.push({ node, rank });
    claimed.set(key, entry);
  };
  const own = sorted.find(({ name }) => name === nodeName);
  if (own === undefined || own.podCidrs.length === 0) for (const cidr of ownCidrs) claim(nodeName, cidr);
  for (const { name, podCidrs } of sorted) for (const cidr of podCidrs) claim(name, cidr);
  const refused = refusedClaims([...claimed.values()], tell);
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

/** Those that the tunnel and routes went to before: of nodes that still have them. */
function firstAddresses(
  sorted: readonly Node[],
  earlier: JudgedNodes | undefined,
): readonly { readonly node: string; readonly address: Address }[] {
  return sorted.flatMap((node) => {
    const address = earlier?.nodes.get(node.name)?.addresses[0];
    return address !== undefined && internalAddresses(node).includes(address) ? [{ node: node.name, address }] : [];
  });
}

/** @returns the node and the prefix of each claim that is refused */
function refusedClaims(
  claimed: readonly Claimed[],
  tell: (node: string, cidr: Cidr, why: string) => void,
): ReadonlySet<string> {
  const refused = new Set<string>();
  /** Refuses what of one prefix is founded no better than another node's claim to the other, which overlaps. */
  const compare = (one: Claimed, other: Claimed): void => {
    for (const { node, rank } of one.claimants) {
      // The first two are enough: at most one of them is the same node's.
      const rival = other.claimants.slice(0, 2).find((claimant) => claimant.node !== node);
      const key = `${node} ${formatCidr(one.cidr)}`;
      if (rival === undefined || rival.rank < rank || refused.has(key)) continue;
      refused.add(key);
      tell(node, one.cidr, `overlaps ${formatCidr(other.cidr)} of Node ${rival.node}`);
    }
  };
  for (const { claimants } of claimed) claimants.sort((a, b) => b.rank - a.rank);
  const sorted = [...claimed].sort((a, b) => compareAddresses(a.first, b.first) || compareAddresses(b.last, a.last));
  /** Those that hold the one before, each inside of that before it: of two prefixes that overlap one holds the other. */
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

function believedAddresses(
  sorted: readonly Node[],
  podCidrs: ByNode<Cidr>,
  services: readonly Cidr[],
  { nodeName, earlier }: JudgeOptions,
  problems: string[],
): ByNode<Address> {
  const pods = new PrefixIndex<string>();
  for (const [node, cidrs] of podCidrs) for (const cidr of cidrs) pods.set(cidr, node);
  const ranges = new PrefixIndex<Cidr>();
  for (const range of services) ranges.set(range, range);
  const holders = new Map<Address, string[]>();
  for (const node of sorted) {
    for (const address of usableOf(node)) {
      const others = holders.get(address);
      if (others === undefined) holders.set(address, [node.name]);
      else others.push(node.name);
    }
  }
  const holderOf = (address: Address): string | undefined => {
    const names = holders.get(address) ?? [];
    if (names.length < 2 || names.includes(nodeName)) return names.length < 2 ? names[0] : nodeName;
    return names.find((name) => earlier?.nodes.get(name)?.addresses.includes(address) === true);
  };
  const whyUnused = (node: string, address: Address): string | undefined => {
    if (isReserved(address)) return "is no address of a node";
    if (node === nodeName) return undefined;
    const holder = holderOf(address);
    if (holder === nodeName) return "is this node's";
    if (holder !== node) {
      const other = holder ?? holders.get(address)?.find((name) => name !== node) ?? "";
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
          problems.push(`Node ${node.name}: InternalIP ${formatAddress(address)} ${why}; it is not used`);
        }
        return why === undefined;
      }),
    ]),
  );
}

/** Each once. */
export function internalAddresses({ addresses }: Pick<Node, "addresses">): readonly Address[] {
  return [...new Set(addresses.flatMap(({ type, address }) => (type === "InternalIP" ? [address] : [])))];
}

function usableOf(node: Node | undefined): readonly Address[] {
  return node === undefined ? [] : internalAddresses(node).filter((address) => !isReserved(address));
}
