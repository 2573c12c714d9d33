import type { PortRange } from "../../../kernel/ip/port_range.ts";
import type { Protocol } from "../../../objects/model.ts";
import type { PortGroup } from "./profile.ts";

export interface PortNumber {
  readonly protocol: Protocol;
  readonly port: number;
}

export interface ProtocolPortRange extends PortRange {
  readonly protocol: Protocol;
}

/** Ports by their numbers, each once: single ones, and ranges of at least two that neither overlap nor touch. */
export interface NumberedPorts {
  readonly singles: readonly PortNumber[];
  readonly ranges: readonly ProtocolPortRange[];
}

const LAST_PORT = 65_535;

/** Returns the numbered ports of port groups, in order. Adjacent single ports stay single: a hash finds them. */
export function numberedPorts(groups: readonly PortGroup[]): NumberedPorts {
  const all = groups.filter((group) => group.type === "range");
  const ranges = joined(all.filter(({ first, last }) => first < last));
  const numbers = all.filter(({ first, last }) => first === last).toSorted(compareRanges);
  const singles: PortNumber[] = [];
  let next = 0;
  for (const { protocol, first: port } of numbers) {
    const before = singles.at(-1);
    if (before?.protocol === protocol && before.port === port) continue;
    const isBehind = ({ protocol: other, last }: ProtocolPortRange): boolean =>
      other < protocol || (other === protocol && last < port);
    for (let range = ranges[next]; range !== undefined && isBehind(range);) range = ranges[++next];
    const range = ranges[next];
    const isCovered = range !== undefined && range.protocol === protocol && range.first <= port;
    if (!isCovered) singles.push({ protocol, port });
  }
  return { singles, ranges };
}

/** Returns whether a range is every port of the protocol. */
export function isWholeProtocol({ first, last }: ProtocolPortRange): boolean {
  return first === 0 && last === LAST_PORT;
}

function joined(ranges: readonly ProtocolPortRange[]): readonly ProtocolPortRange[] {
  const sorted = ranges.toSorted(compareRanges);
  const result: ProtocolPortRange[] = [];
  for (const { protocol, first, last } of sorted) {
    const before = result.at(-1);
    if (before === undefined || before.protocol !== protocol || first > before.last + 1) {
      result.push({ protocol, first, last });
    } else if (last > before.last) result.splice(-1, 1, { ...before, last });
  }
  return result;
}

function compareRanges(a: ProtocolPortRange, b: ProtocolPortRange): number {
  if (a.protocol !== b.protocol) return a.protocol < b.protocol ? -1 : 1;
  return a.first - b.first || a.last - b.last;
}
