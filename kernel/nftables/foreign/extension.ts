import { littleEndian } from "../../byte_order.ts";

/** A range of ports in an iptables test, both ends included. */
export type TestedPorts = readonly [first: number, last: number];

/** The test of an iptables match (`-m NAME`), as far as it is known here. */
export type ExtensionTest =
  | { readonly kind: "always" }
  /** A test of a header or a protocol that no sample packet has. */
  | { readonly kind: "never" }
  | { readonly kind: "state"; readonly mask: number; readonly isNegated: boolean }
  | {
      readonly kind: "ports";
      readonly protocol: "tcp" | "udp" | undefined;
      readonly source: readonly TestedPorts[];
      readonly destination: readonly TestedPorts[];
      /** Whether one of the two is enough. */
      readonly isEither: boolean;
      readonly isSourceNegated: boolean;
      readonly isDestinationNegated: boolean;
    }
  | {
      readonly kind: "flags";
      readonly mask: number;
      readonly value: number;
      readonly isNegated: boolean;
      readonly ports: ExtensionTest;
    }
  /** The types are bits 1 << RTN_*, 0 for any. */
  | {
      readonly kind: "address type";
      readonly source: number;
      readonly destination: number;
      readonly isSourceNegated: boolean;
      readonly isDestinationNegated: boolean;
      readonly isOfLink: boolean;
    }
  | {
      readonly kind: "mark";
      readonly of: "packet" | "connection";
      readonly value: number;
      readonly mask: number;
      readonly isNegated: boolean;
    }
  | {
      readonly kind: "addresses";
      readonly source: readonly [Uint8Array, Uint8Array] | undefined;
      readonly destination: readonly [Uint8Array, Uint8Array] | undefined;
      readonly isSourceNegated: boolean;
      readonly isDestinationNegated: boolean;
    }
  | { readonly kind: "packet type"; readonly type: number; readonly isNegated: boolean }
  | { readonly kind: "reverse path"; readonly isLoose: boolean; readonly isNegated: boolean }
  | { readonly kind: "unknown"; readonly name: string };

const CONNTRACK_STATE = 1;
const STATE_ALIAS = 1 << 13;
/** Matches on headers that TCP and UDP packets without extension headers lack. They never match, negated or not. */
const ABSENT: readonly string[] = "rt frag hbh dst mh ah esp icmp icmp6 sctp dccp ipcomp".split(" ");
const ANY_PORT: TestedPorts = [0, 0xffff];

/**
 * Returns the test of an iptables match (struct xt_*, include/uapi/linux/netfilter/xt_*.h); "unknown" for a match or
 * revision that is not known here, or for data that is too short.
 */
export function extensionTest(name: string, revision: number, info: Uint8Array): ExtensionTest {
  if (ABSENT.includes(name)) return { kind: "never" };
  const decode = DECODERS[`${name}.${revision}`] ?? DECODERS[name];
  const view = new DataView(info.buffer, info.byteOffset, info.byteLength);
  const known = decode !== undefined && info.length >= decode.least ? decode.test(view) : undefined;
  return known ?? { kind: "unknown", name: `match ${name}` };
}

interface Decoder {
  /** The bytes that it needs. */
  readonly least: number;
  readonly test: (info: DataView) => ExtensionTest | undefined;
}

const DECODERS: Readonly<Record<string, Decoder | undefined>> = {
  comment: { least: 0, test: () => ({ kind: "always" }) },
  "conntrack.1": { least: 152, test: (info) => connectionState(info, 1) },
  "conntrack.2": { least: 154, test: (info) => connectionState(info, 2) },
  "conntrack.3": { least: 154, test: (info) => connectionState(info, 2) },
  state: { least: 4, test: (info) => ({ kind: "state", mask: oldState(u32(info, 0)), isNegated: false }) },
  tcp: { least: 12, test: tcp },
  udp: {
    least: 9,
    test: (info) => ({ kind: "ports", protocol: "udp", ...portPairs(info), ...negatedPorts(info.getUint8(8)) }),
  },
  "multiport.1": { least: 48, test: multiport },
  "addrtype.1": { least: 8, test: addressType },
  "mark.1": { least: 9, test: (info) => markTest("packet", info) },
  "connmark.1": { least: 9, test: (info) => markTest("connection", info) },
  "iprange.1": { least: 65, test: addressRange },
  pkttype: {
    least: 8,
    test: (info) => ({ kind: "packet type", type: u32(info, 0), isNegated: u32(info, 4) !== 0 }),
  },
  rpfilter: { least: 1, test: reversePath },
};

/** Decodes struct xt_conntrack_mtinfo1 and later: only tests of the state are known here. */
function connectionState(info: DataView, stateBytes: 1 | 2): ExtensionTest | undefined {
  const [matched, inverted] = [u16(info, 146), u16(info, 148)];
  if ((matched & ~STATE_ALIAS) !== CONNTRACK_STATE) return undefined;
  const mask = stateBytes === 1 ? info.getUint8(150) : u16(info, 150);
  return { kind: "state", mask, isNegated: (inverted & CONNTRACK_STATE) !== 0 };
}

/** XT_STATE_UNTRACKED and XT_CONNTRACK_STATE_UNTRACKED are different bits. */
function oldState(mask: number): number {
  return (mask & 0xf) | ((mask & 0x40) === 0 ? 0 : UNTRACKED);
}

/** XT_CONNTRACK_STATE_UNTRACKED. */
export const UNTRACKED = 1 << 8;

function portPairs(info: DataView): {
  readonly source: readonly TestedPorts[];
  readonly destination: readonly TestedPorts[];
  readonly isEither: boolean;
} {
  return {
    source: [[u16(info, 0), u16(info, 2)]],
    destination: [[u16(info, 4), u16(info, 6)]],
    isEither: false,
  };
}

function negatedPorts(flags: number): { readonly isSourceNegated: boolean; readonly isDestinationNegated: boolean } {
  return { isSourceNegated: (flags & 1) !== 0, isDestinationNegated: (flags & 2) !== 0 };
}

/** Decodes struct xt_tcp: ports, an option, flags. */
function tcp(info: DataView): ExtensionTest | undefined {
  if (info.getUint8(8) !== 0) return undefined;
  const inverted = info.getUint8(11);
  const ports: ExtensionTest = { kind: "ports", protocol: "tcp", ...portPairs(info), ...negatedPorts(inverted) };
  const mask = info.getUint8(9);
  return mask === 0 ? ports : { kind: "flags", mask, value: info.getUint8(10), isNegated: (inverted & 4) !== 0, ports };
}

/** Decodes struct xt_multiport_v1: a port whose flag is set begins a range that the next port ends. */
function multiport(info: DataView): ExtensionTest {
  const [which, count] = [info.getUint8(0), Math.min(info.getUint8(1), 15)];
  const ranges: TestedPorts[] = [];
  for (let i = 0; i < count; i++) {
    const first = u16(info, 2 + 2 * i);
    const isRange = info.getUint8(32 + i) !== 0 && i + 1 < count;
    ranges.push([first, isRange ? u16(info, 4 + 2 * i) : first]);
    if (isRange) i++;
  }
  const isNegated = info.getUint8(47) !== 0;
  return {
    kind: "ports",
    protocol: undefined,
    source: which === 1 ? [ANY_PORT] : ranges,
    destination: which === 0 ? [ANY_PORT] : ranges,
    isEither: which === 2,
    isSourceNegated: isNegated && which !== 1,
    isDestinationNegated: isNegated && which !== 0,
  };
}

function addressType(info: DataView): ExtensionTest {
  const flags = u32(info, 4);
  return {
    kind: "address type",
    source: u16(info, 0),
    destination: u16(info, 2),
    isSourceNegated: (flags & 1) !== 0,
    isDestinationNegated: (flags & 2) !== 0,
    isOfLink: (flags & 12) !== 0,
  };
}

function markTest(of: "packet" | "connection", info: DataView): ExtensionTest {
  return { kind: "mark", of, value: u32(info, 0), mask: u32(info, 4), isNegated: info.getUint8(8) !== 0 };
}

/** Decodes struct xt_iprange_mtinfo. An IPv4 address takes the first four of sixteen bytes. */
function addressRange(info: DataView): ExtensionTest {
  const flags = info.getUint8(64);
  const range = (offset: number): readonly [Uint8Array, Uint8Array] => [
    new Uint8Array(info.buffer, info.byteOffset + offset, 16),
    new Uint8Array(info.buffer, info.byteOffset + offset + 16, 16),
  ];
  return {
    kind: "addresses",
    source: (flags & 1) === 0 ? undefined : range(0),
    destination: (flags & 2) === 0 ? undefined : range(32),
    isSourceNegated: (flags & 16) !== 0,
    isDestinationNegated: (flags & 32) !== 0,
  };
}

function reversePath(info: DataView): ExtensionTest {
  const flags = info.getUint8(0);
  return { kind: "reverse path", isLoose: (flags & 1) !== 0, isNegated: (flags & 8) !== 0 };
}

function u16(info: DataView, offset: number): number {
  return info.getUint16(offset, littleEndian);
}

function u32(info: DataView, offset: number): number {
  return info.getUint32(offset, littleEndian);
}
