import { PROTOCOLS } from "../../../objects/protocol.ts";
import type { PortRange } from "../../../kernel/ip/port_range.ts";
import type { Protocol } from "../../../objects/model.ts";

/** The protocols with ports, in the order of the output. */

export const FIRST_PORT = 1;
export const LAST_PORT = 65_535;

/** The traffic from one end to another: its ranges are disjoint and in order. */
export interface ConnectionSet {
  readonly ports: Readonly<Record<Protocol, readonly PortRange[]>>;
  /** Echo requests and other ICMP queries. */
  readonly icmp: boolean;
}

const ALL_PORTS: readonly PortRange[] = Object.freeze([Object.freeze({ first: FIRST_PORT, last: LAST_PORT })]);

export const EVERYTHING: ConnectionSet = ofPorts(() => ALL_PORTS, true);
export const NOTHING: ConnectionSet = ofPorts(() => [], false);

/** Returns the set of the ranges for each protocol. */
export function ofPorts(rangesOf: (protocol: Protocol) => readonly PortRange[], icmp: boolean): ConnectionSet {
  const [TCP, UDP, SCTP] = [rangesOf("TCP"), rangesOf("UDP"), rangesOf("SCTP")];
  return Object.freeze({ ports: Object.freeze({ TCP, UDP, SCTP }), icmp });
}

/** Returns everything that is in either set. */
export function union(a: ConnectionSet, b: ConnectionSet): ConnectionSet {
  return combine(a, b, (inA, inB) => inA || inB);
}

/** Returns everything that is in both sets. */
export function intersection(a: ConnectionSet, b: ConnectionSet): ConnectionSet {
  return combine(a, b, (inA, inB) => inA && inB);
}

/** Returns everything that is only in the first set. */
export function difference(a: ConnectionSet, b: ConnectionSet): ConnectionSet {
  return combine(a, b, (inA, inB) => inA && !inB);
}

export function isEmpty({ ports, icmp }: ConnectionSet): boolean {
  return !icmp && PROTOCOLS.every((protocol) => ports[protocol].length === 0);
}

export function includes({ ports }: ConnectionSet, protocol: Protocol, port: number): boolean {
  return ports[protocol].some(({ first, last }) => first <= port && port <= last);
}

/** Returns a text that only equal sets share: `all`, `none`, or such as `80/TCP,8000-8080/TCP,all/UDP,ICMP`. */
export function connectionText(set: ConnectionSet): string {
  const ranges = PROTOCOLS.flatMap((protocol) =>
    set.ports[protocol].map(({ first, last }) => {
      if (first === FIRST_PORT && last === LAST_PORT) return `all/${protocol}`;
      return `${first === last ? first : `${first}-${last}`}/${protocol}`;
    }),
  );
  const isAll = set.icmp && PROTOCOLS.every((protocol) => ranges.includes(`all/${protocol}`));
  if (isAll) return "all";
  return [...ranges, ...(set.icmp ? ["ICMP"] : [])].join(",") || "none";
}

/** Returns all ports in order, divided at some points, each of which begins a range. */
export function dividedAt(points: readonly number[]): readonly PortRange[] {
  const starts = [...new Set([FIRST_PORT, ...points])].filter((port) => port >= FIRST_PORT && port <= LAST_PORT);
  starts.sort((a, b) => a - b);
  return starts.map((first, i) => ({ first, last: (starts[i + 1] ?? LAST_PORT + 1) - 1 }));
}

/** Returns ranges in order, with adjacent and overlapping ones joined. */
export function merged(ranges: readonly PortRange[]): readonly PortRange[] {
  const found: PortRange[] = [];
  for (const range of ranges.toSorted((a, b) => a.first - b.first)) {
    const before = found.at(-1);
    if (before === undefined || range.first > before.last + 1) found.push(range);
    else found.splice(-1, 1, { first: before.first, last: Math.max(before.last, range.last) });
  }
  return found;
}

/** Returns a test whether ordered ranges contain a port, for ports that ascend from one call to the next. */
function askedInOrder(ranges: readonly PortRange[]): (port: number) => boolean {
  let place = 0;
  return (port) => {
    while ((ranges[place]?.last ?? port) < port) place++;
    const range = ranges[place];
    return range !== undefined && range.first <= port;
  };
}

function combine(a: ConnectionSet, b: ConnectionSet, holds: (inA: boolean, inB: boolean) => boolean): ConnectionSet {
  return ofPorts(
    (protocol) => {
      const points = [...a.ports[protocol], ...b.ports[protocol]].flatMap(({ first, last }) => [first, last + 1]);
      const [inA, inB] = [askedInOrder(a.ports[protocol]), askedInOrder(b.ports[protocol])];
      return merged(dividedAt(points).filter(({ first }) => holds(inA(first), inB(first))));
    },
    holds(a.icmp, b.icmp),
  );
}
