import {
  type Address,
  addressPlus,
  bitsOf,
  type Family,
  familyOf,
  formatAddress,
  parseAddress,
} from "../../kernel/ip/address.ts";
import { type Cidr, cidrContains, cidrFamily, networkAddress } from "../../kernel/ip/cidr.ts";
import { MAIN_TABLE } from "../../kernel/route/route.ts";
import type { OtherRule } from "../../kernel/route/rule.ts";
import type { JudgedNode } from "../../objects/nodes/node_verdict.ts";
import type { Desired } from "./desired.ts";
import type { KernelState, Lookup, RouteKernel } from "./route_kernel/kernel_state.ts";
import { TUNNEL } from "./tunnel.ts";
import { type ClusterNodes, leavesElsewhere, LOOPBACK_LINK, routeKey } from "./surroundings.ts";

/** The largest number of nodes whose ways are looked up in a pass: rules rarely distinguish nodes. */
const MOST_LOOKED_UP = 16;
/** The largest number of these packets that are looked up with each of our marks, too. */
const MOST_MARKED = 16;
/** The largest number of packets that are looked up since a rule of another program tells them apart. */
const MOST_SELECTED = 64;
/** Stands for other nodes where there are none yet (RFC 2544, RFC 5180). */
const OUTSIDE: Readonly<Record<Family, Address>> = { 4: parseAddress("198.18.0.1"), 6: parseAddress("2001:2::1") };

const SCOPE_UNIVERSE = 0;
const UDP = 17;

type LookUp = Pick<RouteKernel, "lookUp">;

/** Returns the state with the links by which packets leave to other nodes, as the kernel chooses them (WAY-04). */
export function withOutward({ own, others }: ClusterNodes, state: KernelState, kernel: LookUp): KernelState {
  const source = own?.addresses[0];
  if (source === undefined) return state;
  const primaries = others.flatMap(({ addresses: [primary] }) =>
    primary !== undefined && familyOf(primary) === familyOf(source) ? [primary] : [],
  );
  if (primaries.length === 0 && !leavesElsewhere(source, state)) return state;
  const asked = primaries.length === 0 ? [OUTSIDE[familyOf(source)]] : primaries.slice(0, MOST_LOOKED_UP);
  const found = kernel.lookUp(asked.map((destination) => ({ destination, source })));
  return { ...state, outward: found.flatMap((index) => (index === undefined || index === 0 ? [] : index)) };
}

/** A packet whose way the kernel is asked for, and the link by which it has to leave. */
interface ExpectedWay {
  readonly packet: Lookup;
  /** In words, for a report. */
  readonly what: string;
  /** Undefined where any link is right. */
  readonly to: number | undefined;
  /** The pod CIDRs that the packet's addresses are in. */
  readonly from?: Cidr | undefined;
  readonly into: Cidr;
  /** {@link what} of all packets, where this is about a part of them: reported only if the whole is not. */
  readonly whole?: string;
}

type Ways = readonly ExpectedWay[];

/**
 * Returns the problems of rules and routes of other programs that lead packets elsewhere than our routes and the
 * bridge: those of pods to other nodes' pods, of other nodes' pods to pods here, and the node's own to both (WAY-05).
 * Each is looked up as the packet is, by its source, its mark and the link by which it arrives.
 */
export function astray(
  desired: Desired,
  others: readonly JudgedNode[],
  state: KernelState,
  kernel: LookUp,
): readonly string[] {
  const expected = [...expectedWays(desired, others, state), ...tunnelWays(desired, others)];
  const found = kernel.lookUp(expected.map(({ packet }) => packet));
  const nameOf = (index: number | undefined) => state.links.find((link) => link.index === index)?.name ?? `${index}`;
  const reported = new Set<string>();
  const texts = expected.flatMap(({ packet, what, to, whole = "" }, place) => {
    const { destination, source, inputInterface } = packet;
    const index = found[place];
    // A local address is not a pod's.
    const isRight = index === to || (to === undefined && index !== 0);
    if (index === undefined || isRight || nameOf(index) === LOOPBACK_LINK || reported.has(whole)) return [];
    reported.add(what);
    const from = source === undefined ? "" : ` from ${formatAddress(source)}`;
    const by = inputInterface === undefined ? "" : ` iif ${nameOf(inputInterface)}`;
    const traits = traitsOf(packet);
    const where = index === 0 ? "are not sent" : `leave by ${nameOf(index)} instead of ${nameOf(to)}`;
    return [
      `${what}${traits === "" ? "" : ` with${traits}`} ${where}, by a rule or route of another program: ` +
        `have it spare them (ip rule; ip route get ${formatAddress(destination)}${from}${by}${traits})`,
    ];
  });
  return [...new Set(texts)];
}

/** Returns the properties of a packet beside its addresses, as `ip route get` takes them. */
function traitsOf({ mark, tos, protocol, destinationPort }: Lookup): string {
  const hex = (value: number | undefined) => value && `0x${value.toString(16)}`;
  const all = { mark: hex(mark), tos: hex(tos), ipproto: protocol, dport: destinationPort };
  return Object.entries(all)
    .flatMap(([word, value]) => (value === undefined ? [] : ` ${word} ${value}`))
    .join("");
}

/**
 * Returns a packet of each kind for each pod CIDR of other nodes, and one from the node to its pods in each family;
 * pods' packets to the first nodes also with each mark that our rules give to packets before they are routed, and as
 * rules of other programs tell them apart.
 */
function expectedWays({ surroundings, routes }: Desired, others: readonly JudgedNode[], state: KernelState): Ways {
  const { own, options, sources } = surroundings;
  const bridge = state.links.find(({ name, up }) => up && name === options.bridge)?.index;
  if (own === undefined || bridge === undefined) return [];
  const expected: ExpectedWay[] = [];
  const ownCidrs = reachableCidrs(own, bridge, state);
  for (const { name, podCidrs } of others.slice(0, MOST_LOOKED_UP)) {
    for (const into of podCidrs) {
      const from = ownCidrs.find((one) => cidrFamily(one) === cidrFamily(into));
      const route = routes.get(routeKey(MAIN_TABLE, into));
      const to = route?.device === "tunnel" ? state.tunnel?.index : route?.device;
      if (to === undefined || route?.isTaken === true) continue;
      const pods = `pods of Node ${name}`;
      const destination = podOf(into);
      const ofNode = { destination, source: sources[cidrFamily(into)] };
      expected.push({ packet: ofNode, what: `the node's packets to ${pods}`, to, into });
      if (from === undefined) continue;
      const out = { destination, source: podOf(from), inputInterface: bridge };
      const back = { destination: podOf(from), source: destination, inputInterface: to };
      expected.push({ packet: out, what: `packets of pods to ${pods}`, to, from, into });
      expected.push({ packet: back, what: `packets of ${pods} to pods here`, to: bridge, from: into, into: from });
    }
  }
  for (const into of ownCidrs) {
    const packet = { destination: podOf(into), source: sources[cidrFamily(into)] };
    expected.push({ packet, what: "the node's packets to its pods", to: bridge, into });
  }
  return [...expected, ...partsOf(expected, options.marks, state.otherRules)];
}

/** Returns the packet around those that take the tunnel, for each node that is reached by it. */
function tunnelWays({ surroundings: { own }, routes }: Desired, others: readonly JudgedNode[]): Ways {
  return others.slice(0, MOST_LOOKED_UP).flatMap(({ name, podCidrs, addresses: [destination] }) => {
    const into = podCidrs.find((cidr) => routes.get(routeKey(MAIN_TABLE, cidr))?.device === "tunnel");
    if (into === undefined || destination === undefined) return [];
    const packet = { destination, source: own?.addresses[0], protocol: UDP, destinationPort: TUNNEL.port };
    return [{ packet, what: `packets of the tunnel to Node ${name}`, to: undefined, into }];
  });
}

/** Returns the packets of ways that our marks or rules of other programs may tell apart from those looked up anyway. */
function partsOf(ways: Ways, marks: readonly number[] = [], rules: readonly OtherRule[] = []): Ways {
  const ofPods = ways.filter(({ packet }) => packet.inputInterface !== undefined).slice(0, MOST_MARKED);
  const marked = ofPods.flatMap((way) =>
    marks.map((mark) => ({ ...way, packet: { ...way.packet, mark }, whole: way.what })),
  );
  const selected = rules.flatMap((rule) => ways.flatMap((way) => selectedBy(rule, way)));
  return [...marked, ...selected.slice(0, MOST_SELECTED)];
}

function selectedBy({ family, source, destination, traits }: OtherRule, way: ExpectedWay): Ways {
  const { packet, from, into, what } = way;
  if (cidrFamily(into) !== family) return [];
  const part = {
    source: isInside(source, from) ? podOf(source) : packet.source,
    destination: isInside(destination, into) ? podOf(destination) : packet.destination,
  };
  const isSame = part.source === packet.source && part.destination === packet.destination;
  if (isSame && Object.values(traits).every((value) => value === undefined)) return [];
  return [{ ...way, packet: { ...packet, ...part, ...traits }, what: isSame ? what : `${what} in part`, whole: what }];
}

function isInside(part: Cidr | undefined, whole: Cidr | undefined): part is Cidr {
  if (part === undefined || whole === undefined) return false;
  return part.prefixLength > whole.prefixLength && cidrContains(whole, part.address);
}

/** Returns the pod CIDRs of families in which the bridge has an address: nothing gets to pods of others yet. */
function reachableCidrs({ podCidrs }: JudgedNode, bridge: number, { addresses }: KernelState): readonly Cidr[] {
  const ofBridge = addresses.filter(({ index, scope }) => index === bridge && scope === SCOPE_UNIVERSE);
  return podCidrs.filter((cidr) => ofBridge.some(({ address }) => cidrFamily(address) === cidrFamily(cidr)));
}

/** Returns the address that the first pod of a range gets, or the only one of a range. */
function podOf(cidr: Cidr): Address {
  const distance = bitsOf(cidrFamily(cidr)) - cidr.prefixLength > 1 ? 2n : 0n;
  return addressPlus(networkAddress(cidr), distance) ?? cidr.address;
}
