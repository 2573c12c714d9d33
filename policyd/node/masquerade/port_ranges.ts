import { TUNNEL } from "../../routes/tunnel.ts";
import type { PortRange } from "../../../kernel/ip/port_range.ts";

/** Only privileged programs bind the ports below it. */
const FIRST_PORT = 1024;
const LAST_PORT = 65_535;

/** Kubernetes' default node port range, excluded whether or not a Service uses it; others while one uses them. */
const NODE_PORTS: PortRange = { first: 30_000, last: 32_767 };

/** Ports of a node's own programs: etcd, VXLAN tunnels, the API server, the kubelet and their neighbours. */
const KNOWN_PORTS: readonly PortRange[] = [
  { first: 2379, last: 2380 },
  { first: TUNNEL.port, last: TUNNEL.port },
  { first: 6443, last: 6443 },
  { first: 8472, last: 8472 },
  { first: 10_248, last: 10_260 },
];

/** Minimum number of ports for pods. Where fewer are free, pods share the ports of the node's programs. */
export const LEAST_PORTS = 4096;
/** Minimum number of shares: fewer would give a pod more ports than it needs. */
const LEAST_SHARES = 16;
/** More shares than a node has pods. Pods beyond that share one with another pod. */
export const MOST_SHARES = 512;

/** The most ranges of a share, each of which is a rule. */
const MOST_RANGES = 8;

/** The ports with which a pod leaves: the longest range first. */
export type Share = readonly [PortRange, ...PortRange[]];

/** The ports that the node uses itself. */
export interface NodePorts {
  /** The ports that the kernel gives to programs of the node (`net.ipv4.ip_local_port_range`). */
  readonly local: PortRange;
  /** Ports that programs have bound, that the administrator has reserved, or that are pods' host ports. */
  readonly taken: readonly PortRange[];
  /** Ports of Services at the node's addresses. */
  readonly served?: readonly PortRange[];
}

/** The source ports that pods use outside the cluster. */
export interface PodPorts {
  /** Ascending, without overlap. */
  readonly ranges: readonly PortRange[];
  /** Whether the kernel assigns none of them to programs of the node. */
  readonly isApart: boolean;
}

/**
 * Returns the source ports for pods that leave with their node's address. They exclude the ports that the kernel
 * assigns to programs of the node, so no connection of the node collides with a pod's. They also exclude ports where
 * the node is reached: otherwise a reply to a pod would be taken for the start of a connection to the node, or the
 * reverse. Where that leaves fewer than {@link LEAST_PORTS}, pods share the ports of the node's programs.
 */
export function podPorts({ local, taken }: NodePorts): PodPorts {
  const kept = [NODE_PORTS, ...KNOWN_PORTS, ...taken];
  const apart = without([local, ...kept]);
  if (sizeOf(apart) >= LEAST_PORTS) return { ranges: apart, isApart: true };
  return { ranges: without(kept), isApart: false };
}

/** Returns whether pods leave with a port as long as nothing has it. */
export function mayBePods(port: number): boolean {
  return port >= FIRST_PORT && [NODE_PORTS, ...KNOWN_PORTS].every(({ first, last }) => port < first || port > last);
}

/** Returns the number of shares for a number of pods: a power of two, so that it seldom changes. */
export function shareCount(pods: number): number {
  let count = LEAST_SHARES;
  while (count < pods && count < MOST_SHARES) count *= 2;
  return count;
}

/** Returns the share of each number. All ports are divided into equal parts, and a share has the ports of one part. */
export function sharesOf(ranges: readonly PortRange[], count: number): readonly Share[] {
  const size = Math.floor(sizeOf(ranges) / count);
  if (size < 1) return [];
  return Array.from({ length: count }, (_, number) => shareOf(part(ranges, number * size, size)));
}

/** Returns the number of ports in the ranges. */
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

/**
 * Returns the share in a part. Connections are spread evenly over its ranges, since a rule takes only one, so it has as
 * many of the longest ones as give most ports that way: a few ports that are taken do not make it small.
 */
function shareOf(ranges: readonly PortRange[]): Share {
  const bySize = ranges.toSorted((a, b) => b.last - b.first - (a.last - a.first));
  const [longest = { first: FIRST_PORT, last: FIRST_PORT }, ...others] = bySize.slice(0, MOST_RANGES);
  let best: Share = [longest];
  let most = sizeOf(best);
  for (const [index, other] of others.entries()) {
    const ports = (index + 2) * sizeOf([other]);
    if (ports <= most) continue;
    most = ports;
    best = [longest, ...others.slice(0, index + 1)];
  }
  return best;
}
