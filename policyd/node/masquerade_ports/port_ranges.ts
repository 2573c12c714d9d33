/** Ports from the first to the last, both among them. */
export interface PortRange {
  readonly first: number;
  readonly last: number;
}

/** Below it are the ports that only a program with a privilege binds. */
const FIRST_PORT = 1024;
const LAST_PORT = 65_535;

/** Node ports by Kubernetes' default, whether a Service has them or not. */
const NODE_PORTS: PortRange = { first: 30_000, last: 32_767 };

/** Ports of a node's own programs: etcd, tunnels by VXLAN, the API server, the kubelet and what is beside them. */
const KNOWN_PORTS: readonly PortRange[] = [
  { first: 2379, last: 2380 },
  { first: 4789, last: 4789 },
  { first: 6443, last: 6443 },
  { first: 8472, last: 8472 },
  { first: 10_248, last: 10_260 },
];

/** Pods get no ports of a node where fewer than these are left: then they share those of its programs. */
export const LEAST_PORTS = 4096;
/** Shares of a node with few pods: more would not make a pod's larger than anybody needs. */
const LEAST_SHARES = 16;
/** More than a node has pods. A further pod has its share with another. */
export const MOST_SHARES = 512;

/** The ports that a node keeps for itself. */
export interface NodePorts {
  /** The ports that the kernel gives to programs of the node (`net.ipv4.ip_local_port_range`). */
  readonly local: PortRange;
  /** Ports that programs have bound, that the administrator has reserved, and that are pods' host ports. */
  readonly taken: readonly PortRange[];
}

/** The ports that pods are seen with outside. */
export interface PodPorts {
  /** Ascending; no two meet. */
  readonly ranges: readonly PortRange[];
  /** Whether none of them is one that programs of the node may get. */
  readonly isApart: boolean;
}

/**
 * Returns the ports for pods that leave with their node's address: none that the kernel gives to programs of the node, so that no
 * connection of the node meets one of a pod, and none where something of the node is reached, since an answer to a pod would be taken
 * for the beginning of a connection to it, or the other way round.
 *
 * Where that leaves fewer than {@link LEAST_PORTS}, pods share the ports of the node's programs.
 */
export function podPorts({ local, taken }: NodePorts): PodPorts {
  const kept = [NODE_PORTS, ...KNOWN_PORTS, ...taken];
  const apart = without([local, ...kept]);
  if (sizeOf(apart) >= LEAST_PORTS) return { ranges: apart, isApart: true };
  return { ranges: without(kept), isApart: false };
}

/** Returns the number of shares for a number of pods: a power of two, so that they seldom change. */
export function shareCount(pods: number): number {
  let count = LEAST_SHARES;
  while (count < pods && count < MOST_SHARES) count *= 2;
  return count;
}

/**
 * Returns the share of each number: of as many equal parts of all ports one run of ports each, the longest where a part has several,
 * since a rule takes a single one.
 */
export function sharesOf(ranges: readonly PortRange[], count: number): readonly PortRange[] {
  const size = Math.floor(sizeOf(ranges) / count);
  if (size < 1) return [];
  return Array.from({ length: count }, (_, number) => longest(part(ranges, number * size, size)));
}

/** How many ports ranges have. */
export function sizeOf(ranges: readonly PortRange[]): number {
  return ranges.reduce((sum, { first, last }) => sum + last - first + 1, 0);
}

function without(excluded: readonly PortRange[]): readonly PortRange[] {
  const found: PortRange[] = [];
  let next = FIRST_PORT;
  for (const { first, last } of excluded.toSorted((a, b) => a.first - b.first)) {
    if (first > next) found.push({ first: next, last: Math.min(first - 1, LAST_PORT) });
    next = Math.max(next, last + 1);
  }
  if (next <= LAST_PORT) found.push({ first: next, last: LAST_PORT });
  return found;
}

/** Returns the ranges of the next `size` ports after the first `skipped` ones. */
function part(ranges: readonly PortRange[], skipped: number, size: number): readonly PortRange[] {
  const found: PortRange[] = [];
  let before = 0;
  for (const { first, last } of ranges) {
    const length = last - first + 1;
    const from = Math.max(first, first + skipped - before);
    const to = Math.min(last, first + skipped + size - 1 - before);
    if (from <= to) found.push({ first: from, last: to });
    before += length;
  }
  return found;
}

function longest(ranges: readonly PortRange[]): PortRange {
  const [start = { first: FIRST_PORT, last: FIRST_PORT }] = ranges;
  return ranges.reduce((best, one) => (one.last - one.first > best.last - best.first ? one : best), start);
}
