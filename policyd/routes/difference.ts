import type { Address } from "../../kernel/ip/address.ts";
import { addressKey } from "../../kernel/ip/address_key.ts";
import { cidrFamily, formatCidr } from "../../kernel/ip/cidr.ts";
import type { MacAddress } from "../../kernel/ip/mac.ts";
import type { Route } from "../../kernel/route/route.ts";
import type { RoutingRule } from "../../kernel/route/rule.ts";
import { each, type Slices } from "../lib/sliced_work.ts";
import type { Desired } from "./desired.ts";
import type { KernelState, OwnRoute, Step, Tunnel, TunnelState } from "./route_kernel/kernel_state.ts";
import { isOurs } from "./own_routes.ts";
import { TUNNEL } from "./tunnel.ts";
import { routeKey } from "./surroundings.ts";

/**
 * Returns the steps that bring the tunnel's device to its desired state. Read the state again after them: only then is
 * the index of a new device known.
 *
 * A device of the tunnel's name that is not VXLAN belongs to another program and is not touched: see
 * {@link tunnelProblems}.
 */
export function tunnelSteps(tunnel: Tunnel | undefined, { tunnel: found, addresses }: KernelState): readonly Step[] {
  if (tunnel === undefined || (found !== undefined && found.parameters === undefined)) return [];
  if (found === undefined) return [{ type: "create-tunnel", tunnel }];
  const { index } = found;
  if (!hasParameters(found, tunnel))
    return [
      { type: "delete-tunnel", index },
      { type: "create-tunnel", tunnel },
    ];
  const steps: Step[] = [];
  if (found.checksumOffload === true) steps.push({ type: "switch-checksum-offload-off", index });
  if (found.hasStrictSourceCheck) steps.push({ type: "loosen-source-check" });
  const needsIpv6 = tunnel.addresses.some((cidr) => cidrFamily(cidr) === 6);
  if (needsIpv6 && found.isWithoutIpv6) steps.push({ type: "switch-ipv6-on" });
  if (!found.up || found.mac !== tunnel.mac || found.mtu !== tunnel.mtu) {
    steps.push({ type: "change-tunnel", index, mac: tunnel.mac, mtu: tunnel.mtu });
  }
  return [...steps, ...addressSteps(tunnel, index, addresses)];
}

function addressSteps(tunnel: Tunnel, index: number, addresses: KernelState["addresses"]): readonly Step[] {
  const steps: Step[] = [];
  const present = new Map(
    addresses.filter((one) => one.index === index).map(({ address }) => [formatCidr(address), address]),
  );
  for (const address of tunnel.addresses) {
    if (!present.delete(formatCidr(address))) steps.push({ type: "add-tunnel-address", index, address });
  }
  for (const address of present.values()) steps.push({ type: "delete-address", index, address });
  return steps;
}

/** Returns why the tunnel cannot reach its desired state, or what impairs it; empty without problems. */
export function tunnelProblems(
  tunnel: Tunnel | undefined,
  { tunnel: found }: Pick<KernelState, "tunnel">,
): readonly string[] {
  if (tunnel === undefined || found === undefined) return [];
  if (found.parameters === undefined) {
    return [`${TUNNEL.name}: there is a link of this name that is not a VXLAN device: rename or delete it`];
  }
  const problems: string[] = [];
  if (found.checksumOffload === true) {
    problems.push(
      `${TUNNEL.name}: checksum offload stays on, by which some kernels send packets that nobody takes: ` +
        `try \`ethtool -K ${TUNNEL.name} tx-checksum-ip-generic off\``,
    );
  }
  if (found.checksumOffload === undefined) {
    problems.push(
      `${TUNNEL.name}: whether checksum offload is off cannot be read: the kernel needs CONFIG_ETHTOOL_NETLINK`,
    );
  }
  if (found.hasStrictSourceCheck) {
    problems.push(
      `${TUNNEL.name}: packets of other nodes are dropped by rp_filter: ` +
        `set net.ipv4.conf.all.rp_filter to 0 or 2, or let policyd write below /proc/sys`,
    );
  }
  return problems;
}

/**
 * Returns the steps from the kernel's state to the desired state, without the tunnel's device.
 *
 * Forwarding and neighbour entries are added before the routes that need them and removed after them, so that no
 * address resolution takes place in the tunnel. Only our own state is removed: routes and rules of our protocol, and
 * entries of our device.
 */
export function* entrySteps(desired: Desired, state: KernelState): Slices<readonly Step[]> {
  const tunnel = state.tunnel?.parameters === undefined ? undefined : state.tunnel;
  const entries = tunnel === undefined ? { added: [], removed: [] } : yield* deviceEntries(desired, tunnel);
  const routes = yield* routeChanges(desired.routes, state, tunnel?.index);
  const rules = ruleChanges(desired.rules, state.rules);
  return [...entries.added, ...routes.added, ...rules.added, ...routes.removed, ...rules.removed, ...entries.removed];
}

/** Returns the step that removes the tunnel's device once no route uses it. */
export function removalSteps(desired: Pick<Desired, "tunnel">, { tunnel }: KernelState): readonly Step[] {
  const isUnused = desired.tunnel === undefined && tunnel?.parameters !== undefined;
  return isUnused ? [{ type: "delete-tunnel", index: tunnel.index }] : [];
}

interface Changes {
  readonly added: readonly Step[];
  readonly removed: readonly Step[];
}

function hasParameters({ parameters }: TunnelState, { local }: Tunnel): boolean {
  return (
    parameters !== undefined &&
    parameters.vni === TUNNEL.vni &&
    parameters.port === TUNNEL.port &&
    parameters.local === local &&
    !parameters.learning &&
    !parameters.hasMore
  );
}

function* deviceEntries(desired: Desired, { index, forwarding, neighbours }: TunnelState): Slices<Changes> {
  const added: Step[] = [];
  const removed: Step[] = [];
  const gone: Step[] = [];
  const remotes = new Map<MacAddress, Address>();
  yield* each(forwarding, ({ mac, remote }) => remotes.set(mac, remote));
  yield* each(desired.forwarding, ([mac, remote]) => {
    if (remotes.get(mac) !== remote) added.push({ type: "set-forwarding", index, entry: { mac, remote } });
  });
  yield* each(forwarding, (entry) => {
    // An entry with another remote has been replaced above.
    if (!desired.forwarding.has(entry.mac)) gone.push({ type: "delete-forwarding", index, entry });
  });
  const macs = new Map<number | bigint, MacAddress | undefined>();
  yield* each(neighbours, ({ address, mac }) => macs.set(addressKey(address), mac));
  yield* each(desired.neighbours, ([key, { address, mac }]) => {
    if (macs.get(key) !== mac) added.push({ type: "set-neighbour", index, address, mac });
  });
  yield* each(neighbours, ({ address }) => {
    if (!desired.neighbours.has(addressKey(address))) removed.push({ type: "delete-neighbour", index, address });
  });
  return { added, removed: [...removed, ...gone] };
}

function* routeChanges(
  desired: Desired["routes"],
  { routes }: KernelState,
  tunnel: number | undefined,
): Slices<Changes> {
  const added: Step[] = [];
  const removed: Step[] = [];
  const found = new Map<string, OwnRoute[]>();
  yield* each(routes, (route) => {
    const own = ownRoute(route);
    if (own === undefined) return;
    const key = routeKey(own.table, own.destination);
    const others = found.get(key);
    if (others === undefined) found.set(key, [own]);
    else others.push(own);
  });
  yield* each(desired, ([key, { device, isTaken, ...route }]) => {
    const present = found.get(key) ?? [];
    found.delete(key);
    const outputInterface = device === "tunnel" ? tunnel : device;
    // While the tunnel's device does not exist, the kernel has no route through it either.
    if (outputInterface === undefined) return;
    const wanted: OwnRoute = { ...route, outputInterface };
    const others = present.filter((one) => !isSameRoute(one, wanted));
    const isThere = others.length < present.length;
    const deletions = others.map((one) => ({ type: "delete-route", route: one }) as const);
    if (isThere || isTaken) removed.push(...deletions);
    else if (others.length === 1) added.push({ type: "replace-route", route: wanted });
    else added.push(...deletions, { type: "add-route", route: wanted });
  });
  yield* each(found.values(), (left) => {
    removed.push(...left.map((route) => ({ type: "delete-route", route }) as const));
  });
  return { added, removed };
}

function ruleChanges(desired: readonly RoutingRule[], found: readonly RoutingRule[]): Changes {
  const known = new Set(found.map(ruleKey));
  const wanted = new Set(desired.map(ruleKey));
  return {
    added: desired.filter((rule) => !known.has(ruleKey(rule))).map((rule) => ({ type: "add-rule", rule })),
    removed: found.filter((rule) => !wanted.has(ruleKey(rule))).map((rule) => ({ type: "delete-rule", rule })),
  };
}

function ruleKey({ family, inputInterface, table, priority }: RoutingRule): string {
  return `${family} ${inputInterface} ${table} ${priority}`;
}

/** Returns the route if it is ours, undefined otherwise. A default route never is: we add none. */
export function ownRoute(route: Route): OwnRoute | undefined {
  const { table, family, destination, gateway, outputInterface, source, onLink, mtu } = route;
  if (!isOurs(route) || destination === undefined) return undefined;
  // 0 names no link: another program gave our route several next hops.
  return { table, family, destination, gateway, outputInterface: outputInterface ?? 0, source, onLink, mtu };
}

/** Whether two routes send packets the same way. */
export function isSameRoute(a: OwnRoute, b: OwnRoute): boolean {
  return (
    a.gateway === b.gateway &&
    a.outputInterface === b.outputInterface &&
    a.source === b.source &&
    a.mtu === b.mtu &&
    (a.family === 6 || a.onLink === b.onLink)
  );
}
