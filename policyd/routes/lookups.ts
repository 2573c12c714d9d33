import {
  type Address,
  addressPlus,
  type Family,
  familyOf,
  formatAddress,
  parseAddress,
} from "../../kernel/ip/address.ts";
import { type Cidr, cidrFamily, networkAddress } from "../../kernel/ip/cidr.ts";
import { MAIN_TABLE } from "../../kernel/route/route.ts";
import type { Peer, Peers } from "./peers.ts";
import type { KernelState, Lookup, RouteKernel } from "./route_kernel/kernel_state.ts";
import type { RoutePlan } from "./route_plan.ts";
import { leavesElsewhere, LOOPBACK_LINK, routeKey } from "./surroundings.ts";

/** The largest number of nodes whose ways are looked up in a pass: rules rarely distinguish nodes. */
const MOST_LOOKED_UP = 16;
/** The largest number of these packets that are looked up with each of our marks, too. */
const MOST_MARKED = 16;
/** Stands for other nodes where there are none yet (RFC 2544, RFC 5180). */
const OUTSIDE: Readonly<Record<Family, Address>> = { 4: parseAddress("198.18.0.1"), 6: parseAddress("2001:2::1") };

const SCOPE_UNIVERSE = 0;

type LookUp = Pick<RouteKernel, "lookUp">;

/** Returns the state with the links by which packets leave to other nodes, as the kernel chooses them (WAY-04). */
export function withOutward(
  { own, others }: Pick<Peers, "own" | "others">,
  state: KernelState,
  kernel: LookUp,
): KernelState {
  const source = own?.primary;
  if (source === undefined || !leavesElsewhere(source, state)) return state;
  const primaries = others.flatMap(({ primary }) =>
    primary !== undefined && familyOf(primary) === familyOf(source) ? [primary] : [],
  );
  const asked = primaries.length === 0 ? [OUTSIDE[familyOf(source)]] : primaries.slice(0, MOST_LOOKED_UP);
  const found = kernel.lookUp(asked.map((destination) => ({ destination, source })));
  return { ...state, outward: found.flatMap((index) => (index === undefined || index === 0 ? [] : index)) };
}

/** A packet whose way the kernel is asked for, and the link by which it has to leave. */
interface ExpectedWay {
  readonly packet: Lookup;
  /** In words, for a report. */
  readonly what: string;
  readonly to: number;
}

/**
 * Returns the problems of rules and routes of other programs that lead packets elsewhere than our routes and the
 * bridge: those of pods to other nodes' pods, of other nodes' pods to pods here, and the node's own to both (WAY-05).
 * Each is looked up as the packet is, by its source, its mark and the link by which it arrives.
 */
export function astray(
  plan: RoutePlan,
  others: readonly Peer[],
  state: KernelState,
  kernel: LookUp,
): readonly string[] {
  const expected = expectedWays(plan, others, state);
  const found = kernel.lookUp(expected.map(({ packet }) => packet));
  const nameOf = (index: number | undefined) => state.links.find((link) => link.index === index)?.name ?? `${index}`;
  const unmarked = new Set<string>();
  const texts = expected.flatMap(({ packet: { destination, source, inputInterface, mark }, what, to }, place) => {
    const index = found[place];
    // A local address is not a pod's.
    if (index === undefined || index === to || nameOf(index) === LOOPBACK_LINK) return [];
    // A packet whose mark makes no difference is reported without it.
    if (mark === undefined) unmarked.add(what);
    else if (unmarked.has(what)) return [];
    const from = source === undefined ? "" : ` from ${formatAddress(source)}`;
    const by = inputInterface === undefined ? "" : ` iif ${nameOf(inputInterface)}`;
    const marked = mark === undefined ? "" : ` mark 0x${mark.toString(16)}`;
    const where = index === 0 ? "are not sent" : `leave by ${nameOf(index)} instead of ${nameOf(to)}`;
    return [
      `${what}${marked === "" ? "" : ` with the${marked}`} ${where}, by a rule or route of another program: ` +
        `have it spare them (ip rule; ip route get ${formatAddress(destination)}${from}${by}${marked})`,
    ];
  });
  return [...new Set(texts)];
}

/**
 * Returns a packet of each kind for each pod CIDR of other nodes, and one from the node to its pods in each family;
 * pods' packets to the first nodes also with each mark that our rules give to packets before they are routed.
 */
function expectedWays(plan: RoutePlan, others: readonly Peer[], state: KernelState): readonly ExpectedWay[] {
  const { own, options, sources } = plan.surroundings;
  const bridge = state.links.find(({ name, up }) => up && name === options.bridge)?.index;
  if (own === undefined || bridge === undefined) return [];
  const expected: ExpectedWay[] = [];
  const ownCidrs = reachableCidrs(own, bridge, state);
  /** A pod of this node in each family that other nodes have. */
  const ownPods = new Map<Family, Address>();
  for (const { name, podCidrs } of others.slice(0, MOST_LOOKED_UP)) {
    for (const cidr of podCidrs) {
      const family = cidrFamily(cidr);
      const [there, here] = [podOf([cidr], family), podOf(ownCidrs, family)];
      const route = plan.route(routeKey(MAIN_TABLE, cidr));
      const to = route?.device === "tunnel" ? state.tunnel?.index : route?.device;
      if (there === undefined || to === undefined || route?.isTaken === true) continue;
      const pods = `pods of Node ${name}`;
      const ofNode = { destination: there, source: sources[family] };
      expected.push({ packet: ofNode, what: `the node's packets to ${pods}`, to });
      if (here === undefined) continue;
      const out = { destination: there, source: here, inputInterface: bridge };
      const back = { destination: here, source: there, inputInterface: to };
      expected.push({ packet: out, what: `packets of pods to ${pods}`, to });
      expected.push({ packet: back, what: `packets of ${pods} to pods here`, to: bridge });
      ownPods.set(family, here);
    }
  }
  const toOwn = [...ownPods].map(([family, destination]): ExpectedWay => {
    return { packet: { destination, source: sources[family] }, what: "the node's packets to its pods", to: bridge };
  });
  const ofPods = expected.filter(({ packet }) => packet.inputInterface !== undefined).slice(0, MOST_MARKED);
  const marked = ofPods.flatMap((way) =>
    (options.marks ?? []).map((mark) => ({ ...way, packet: { ...way.packet, mark } })),
  );
  return [...expected, ...marked, ...toOwn];
}

/** Returns the pod CIDRs of families in which the bridge has an address: nothing gets to pods of others yet. */
function reachableCidrs({ podCidrs }: Peer, bridge: number, { addresses }: KernelState): readonly Cidr[] {
  const ofBridge = addresses.filter(({ index, scope }) => index === bridge && scope === SCOPE_UNIVERSE);
  return podCidrs.filter((cidr) => ofBridge.some(({ address }) => cidrFamily(address) === cidrFamily(cidr)));
}

/** Returns the address that the first pod of a family's CIDR gets; undefined without a CIDR of the family. */
function podOf(cidrs: readonly Cidr[], family: Family): Address | undefined {
  const cidr = cidrs.find((one) => cidrFamily(one) === family);
  return cidr && addressPlus(networkAddress(cidr), 2n);
}
