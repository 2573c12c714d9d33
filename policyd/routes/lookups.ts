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
/** Stands for other nodes where there are none yet (RFC 2544, RFC 5180). */
const OUTSIDE: Readonly<Record<Family, Address>> = { 4: parseAddress("198.18.0.1"), 6: parseAddress("2001:2::1") };

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
  return { ...state, outward: found.filter((index) => index !== undefined) };
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
 * Each is looked up as the packet is, by its source and the link by which it arrives.
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
  const texts = expected.flatMap(({ packet: { destination, source, inputInterface }, what, to }, place) => {
    const index = found[place];
    // Other checks find packets that the kernel does not send at all; a local address is not a pod's.
    if (index === undefined || index === to || nameOf(index) === LOOPBACK_LINK) return [];
    const from = source === undefined ? "" : ` from ${formatAddress(source)}`;
    const by = inputInterface === undefined ? "" : ` iif ${nameOf(inputInterface)}`;
    return [
      `${what} leave by ${nameOf(index)} instead of ${nameOf(to)}, by a rule or route of another program: ` +
        `have it spare them (ip rule; ip route get ${formatAddress(destination)}${from}${by})`,
    ];
  });
  return [...new Set(texts)];
}

/** Returns a packet of each kind for each pod CIDR of other nodes, and one from the node to its pods in each family. */
function expectedWays(plan: RoutePlan, others: readonly Peer[], state: KernelState): readonly ExpectedWay[] {
  const { own, options, sources } = plan.surroundings;
  const bridge = state.links.find(({ name, up }) => up && name === options.bridge)?.index;
  if (own === undefined || bridge === undefined) return [];
  const expected: ExpectedWay[] = [];
  /** A pod of this node in each family that other nodes have. */
  const ownPods = new Map<Family, Address>();
  for (const { name, podCidrs } of others.slice(0, MOST_LOOKED_UP)) {
    for (const cidr of podCidrs) {
      const family = cidrFamily(cidr);
      const [there, here] = [podOf([cidr], family), podOf(own.podCidrs, family)];
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
  return [...expected, ...toOwn];
}

/** Returns the address that the first pod of a family's CIDR gets; undefined without a CIDR of the family. */
function podOf(cidrs: readonly Cidr[], family: Family): Address | undefined {
  const cidr = cidrs.find((one) => cidrFamily(one) === family);
  return cidr && addressPlus(networkAddress(cidr), 2n);
}
