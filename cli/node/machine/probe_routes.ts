import { type Address, addressPlus, familyOf } from "../../../kernel/ip/address.ts";
import { networkAddress } from "../../../kernel/ip/cidr.ts";
import { isReached } from "../../../kernel/closed_port_probe.ts";
import { MAIN_TABLE, type Route } from "../../../kernel/route/route.ts";
import type { MachineCalls } from "../../../kernel/syscall/machine_calls.ts";
import { isOurs } from "../../../policyd/routes/own_routes.ts";
import { TUNNEL } from "../../../policyd/routes/tunnel.ts";
import type { DirectRoute, NodeAddress } from "../doctor/facts.ts";
import type { CheckedLink } from "../../../policyd/problems/check.ts";

/** Each probe may wait for its answer: the doctor must not take minutes on a node with thousands of routes. */
const MOST_PROBES = 4;
const MILLISECONDS = 500;

/**
 * Tries connections over some of our direct routes, from this node's address on the bridge to the other node's. Both
 * addresses are in pod networks, so a network that drops such packets lets no answer through.
 *
 * @throws SyscallError when a socket is refused
 */
export function probeDirectRoutes(
  syscalls: MachineCalls,
  bridge: string,
  facts: {
    readonly routes: readonly Route[];
    readonly links: readonly CheckedLink[];
    readonly addresses: readonly NodeAddress[];
  },
): readonly DirectRoute[] {
  const tunnel = facts.links.find(({ name }) => name === TUNNEL.name)?.index;
  const found: DirectRoute[] = [];
  for (const route of facts.routes) {
    const { table, destination, gateway, outputInterface } = route;
    const isDirect = isOurs(route) && table === MAIN_TABLE && outputInterface !== tunnel;
    if (!isDirect || destination === undefined || gateway === undefined) continue;
    const from = ownAddress(facts.addresses, bridge, gateway);
    const to = addressPlus(networkAddress(destination), 1n);
    if (from === undefined || to === undefined) continue;
    found.push({ destination, gateway, to, isAnswered: isReached(syscalls, from, to, MILLISECONDS) });
    if (found.length === MOST_PROBES) break;
  }
  return found;
}

/** Returns the node's address on the bridge in the family of another address, but not the link-local one. */
function ownAddress(addresses: readonly NodeAddress[], bridge: string, like: Address): Address | undefined {
  return addresses
    .filter(({ link, address }) => link === bridge && familyOf(address.address) === familyOf(like))
    .map(({ address }) => address.address)
    .find((address) => typeof address === "number" || address >> 118n !== 0x3fan);
}
