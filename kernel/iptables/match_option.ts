import { addressToBytes, tryParseAddress } from "../ip/address.ts";
import { type ExtensionTest, type TestedPorts, UNTRACKED } from "../nftables/foreign/extension.ts";
import type { Step } from "../nftables/foreign/step.ts";
import { addressesTest, unknown } from "./header_option.ts";
import type { Option } from "./option.ts";

/** XT_CONNTRACK_STATE_*. */
const STATES: Readonly<Record<string, number | undefined>> = {
  INVALID: 1,
  ESTABLISHED: 2,
  RELATED: 4,
  NEW: 8,
  SNAT: 64,
  DNAT: 128,
  UNTRACKED,
};
const TCP_FLAGS: Readonly<Record<string, number | undefined>> = {
  NONE: 0,
  FIN: 1,
  SYN: 2,
  RST: 4,
  PSH: 8,
  ACK: 16,
  URG: 32,
  ALL: 63,
};
/** RTN_*, each at the index of its number. */
const ADDRESS_TYPES =
  "UNSPEC UNICAST LOCAL BROADCAST ANYCAST MULTICAST BLACKHOLE UNREACHABLE PROHIBIT THROW NAT XRESOLVE".split(" ");
const PACKET_TYPES = ["unicast", "broadcast", "multicast"];
const ANY: readonly TestedPorts[] = [[0, 65_535]];
/** Matches whose options are not about the packet. */
const NOTING = ["comment"];
/** Matches on headers that no sample packet has. */
const OF_OTHERS = ["icmp", "icmp6", "ipv6-icmp", "sctp", "dccp", "esp", "ah", "frag", "rt", "mh", "hbh", "dst"];

/** Returns the steps of a match (`-m NAME`) with its options. A match that is unknown here may or may not pass. */
export function matchSteps(name: string, options: readonly Option[]): readonly Step[] {
  if (NOTING.includes(name)) return [];
  if (OF_OTHERS.includes(name)) return [{ kind: "test", test: { kind: "never" } }];
  const of = TESTS[name];
  if (of === undefined) return [unknown(`match ${name}`)];
  // A match without an option, such as "-m tcp", only says that the packet has such a header.
  return options.map((option): Step => {
    const test = of(option);
    return test === undefined ? unknown(`match ${name} ${option.name}`) : { kind: "test", test };
  });
}

const TESTS: Readonly<Record<string, ((option: Option) => ExtensionTest | undefined) | undefined>> = {
  tcp: (option) => ports("tcp", option) ?? flags(option),
  udp: (option) => ports("udp", option),
  multiport: (option) => ports(undefined, option),
  conntrack: state,
  state,
  addrtype: addressType,
  mark: (option) => mark("packet", option),
  connmark: (option) => mark("connection", option),
  iprange: addressRange,
  pkttype: ({ name, values: [value = ""], isNegated }) => {
    const type = PACKET_TYPES.indexOf(value);
    return name !== "--pkt-type" || type < 0 ? undefined : { kind: "packet type", type, isNegated };
  },
};

function ports(
  protocol: "tcp" | "udp" | undefined,
  { name, values: [value = ""], isNegated }: Option,
): ExtensionTest | undefined {
  const isSource = name === "--sport" || name === "--sports";
  const isDestination = name === "--dport" || name === "--dports";
  if (!isSource && !isDestination && name !== "--ports") return undefined;
  const ranges = value.split(",").map((range): TestedPorts => {
    const [first = "0", last = first] = range.split(":");
    return [Number(first === "" ? 0 : first), Number(last === "" ? 65_535 : last)];
  });
  if (ranges.flat().some((port) => Number.isNaN(port))) return undefined;
  return {
    kind: "ports",
    protocol,
    source: isDestination ? ANY : ranges,
    destination: isSource ? ANY : ranges,
    isEither: name === "--ports",
    isSourceNegated: isNegated && !isDestination,
    isDestinationNegated: isNegated && !isSource,
  };
}

function flags({ name, values: [mask = "", value = ""], isNegated }: Option): ExtensionTest | undefined {
  if (name !== "--tcp-flags") return undefined;
  const [of, wanted] = [mask, value].map((text) => sumOf(text, TCP_FLAGS));
  if (of === undefined || wanted === undefined) return undefined;
  return { kind: "flags", mask: of, value: wanted, isNegated, ports: { kind: "always" } };
}

function state({ name, values: [value = ""], isNegated }: Option): ExtensionTest | undefined {
  const states = name === "--ctstate" || name === "--state" ? sumOf(value, STATES) : undefined;
  return states === undefined ? undefined : { kind: "state", mask: states, isNegated };
}

function addressType({ name, values: [value = ""], isNegated }: Option): ExtensionTest | undefined {
  const bits = Object.fromEntries(ADDRESS_TYPES.map((type, i) => [type, 1 << i]));
  const types = sumOf(value, bits);
  const isSource = name === "--src-type";
  if (types === undefined || (!isSource && name !== "--dst-type")) return undefined;
  return {
    kind: "address type",
    source: isSource ? types : 0,
    destination: isSource ? 0 : types,
    isSourceNegated: isSource && isNegated,
    isDestinationNegated: !isSource && isNegated,
    isOfLink: false,
  };
}

function mark(
  of: "packet" | "connection",
  { name, values: [text = ""], isNegated }: Option,
): ExtensionTest | undefined {
  const [value = Number.NaN, mask = 0xffff_ffff] = text.split("/").map(Number);
  if (name !== "--mark" || Number.isNaN(value) || Number.isNaN(mask)) return undefined;
  return { kind: "mark", of, value, mask, isNegated };
}

function addressRange({ name, values: [value = ""], isNegated }: Option): ExtensionTest | undefined {
  const [first, last] = value.split("-").map((text) => tryParseAddress(text));
  const isSource = name === "--src-range";
  if (first === undefined || last === undefined || (!isSource && name !== "--dst-range")) return undefined;
  return addressesTest([addressToBytes(first), addressToBytes(last)], isSource, isNegated);
}

/** Returns the sum of the bits of comma-separated names; undefined when a name is unknown. */
function sumOf(text: string, bits: Readonly<Record<string, number | undefined>>): number | undefined {
  return text.split(",").reduce<number | undefined>((sum, name) => {
    const bit = bits[name];
    return sum === undefined || bit === undefined ? undefined : sum | bit;
  }, 0);
}
