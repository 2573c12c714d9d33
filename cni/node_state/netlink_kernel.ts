import { DrawbridgeError } from "../../kernel/error.ts";
import type { Address } from "../../kernel/ip/address.ts";
import type { MacAddress } from "../../kernel/ip/mac.ts";
import type { NetlinkSocket } from "../../kernel/netlink/socket.ts";
import { getPortEntry, parsePortEntry } from "../../kernel/route/forwarding_entry.ts";
import { listAddresses } from "../../kernel/route/interface_address.ts";
import { getLink, type Link, parseLink } from "../../kernel/route/link.ts";
import { getNeighbour, parseNeighbour } from "../../kernel/route/neighbour.ts";
import { findLink } from "../../kernel/route/socket.ts";
import type { Sysctl } from "../../kernel/sysctl.ts";
import { dumpReceivedFilters, parsePortFilter } from "../../kernel/traffic_control/redirect.ts";
import type { DesiredBridge, DesiredPort } from "./desired.ts";
import type { NodeStateKernel, ObservedBridge, ObservedFilters, ObservedPort, Scope } from "./observed.ts";
import { carryOutSteps, type StepMachine } from "./carry_out.ts";
import { readWays } from "./ensure.ts";

/**
 * Returns the kernel's state by a socket for links and routes of one network namespace. The calling thread must be in
 * that namespace because of the settings.
 */
export function netlinkNodeState(machine: StepMachine): NodeStateKernel {
  return {
    observe: (desired, scope) => observeBridge(machine, desired, scope),
    apply: (steps) => carryOutSteps(machine, steps),
  };
}

type Reader = Pick<StepMachine, "sysctl"> & { readonly socket: Pick<NetlinkSocket, "batch" | "dump"> };

/**
 * Reads the state of a bridge by a few requests for each port, which for 250 ports take as long as lists of everything.
 *
 * @throws DrawbridgeError when the kernel does not answer
 */
export function observeBridge({ socket, sysctl }: Reader, desired: DesiredBridge, scope: Scope): ObservedBridge {
  const link = findLink(socket, { name: desired.name });
  const settings = readSettings(sysctl, desired);
  if (link?.kind !== "bridge") {
    return { link, addresses: [], settings, ports: new Map(), ways: new Map(), neighbours: new Map() };
  }
  const names = scope.ports === "all" ? [...desired.ports.keys()] : [...scope.ports];
  const wanted = names.flatMap((name) => desired.ports.get(name) ?? []);
  const links = askLinks(
    socket,
    wanted.flatMap(({ name, delay }) => [name, ...(delay === undefined ? [] : [delay])]),
  );
  const entries = askEntries(socket, wanted, links);
  const ports = new Map(
    wanted.map((port): [string, ObservedPort] => {
      const found = links.get(port.name);
      const hasFilters = scope.hasFilters && found !== undefined;
      const filters = hasFilters ? readFilters(socket, found.index) : undefined;
      const delay = port.delay === undefined ? undefined : links.get(port.delay);
      return [port.name, { link: found, entry: entries.get(port.name), filters, delay }];
    }),
  );
  return {
    link,
    addresses: listAddresses(socket, { index: link.index }).map(({ address }) => address),
    settings,
    ports,
    ways: readWays(socket, addressesToLookUp(desired, wanted, scope)),
    neighbours: askNeighbours(socket, wanted, link.index),
  };
}

function readSettings(sysctl: Sysctl, { settings }: DesiredBridge): ReadonlyMap<string, string> {
  return new Map(
    [...settings.keys()].flatMap((key) => {
      const value = sysctl.read(key);
      return value === undefined ? [] : [[key, value] as const];
    }),
  );
}

function askLinks(socket: Pick<NetlinkSocket, "batch">, names: readonly string[]): ReadonlyMap<string, Link> {
  const replies = socket.batch(names.map((name) => getLink({ name })));
  return new Map(
    replies.flatMap(({ messages: [message] }) => {
      const link = message === undefined ? undefined : parseLink(message);
      return link === undefined ? [] : [[link.name, link] as const];
    }),
  );
}

function askEntries(
  socket: Pick<NetlinkSocket, "batch">,
  ports: readonly DesiredPort[],
  links: ReadonlyMap<string, Link>,
): ReadonlyMap<string, ObservedPort["entry"]> {
  // The kernel passes the request on to the port's bridge.
  const asked = ports.filter(({ name }) => links.get(name)?.master !== undefined);
  const replies = socket.batch(asked.map(({ name, podMac }) => getPortEntry(links.get(name)?.index ?? 0, podMac)));
  return new Map(
    asked.map(({ name }, position) => {
      const message = replies[position]?.messages[0];
      return [name, message === undefined ? undefined : parsePortEntry(message)?.port];
    }),
  );
}

function readFilters(socket: Pick<NetlinkSocket, "dump">, index: number): ObservedFilters {
  try {
    const filters = socket.dump(dumpReceivedFilters(index)).flatMap((message) => parsePortFilter(message) ?? []);
    return {
      targets: filters.flatMap(({ isOurs, target }) => (isOurs ? [target] : [])),
      hasOthers: filters.some(({ isOurs }) => !isOurs),
    };
  } catch (error) {
    if (!(error instanceof DrawbridgeError)) throw error;
    return { targets: [], hasOthers: false };
  }
}

function addressesToLookUp(
  { ports }: DesiredBridge,
  wanted: readonly DesiredPort[],
  { ways }: Scope,
): readonly Address[] {
  const own = (ways === "all" ? [...ports.values()] : wanted).flatMap(({ addresses }) => addresses);
  return [...new Set([...own, ...(ways === "all" ? [] : ways)])];
}

function askNeighbours(
  socket: Pick<NetlinkSocket, "batch">,
  ports: readonly DesiredPort[],
  bridge: number,
): ReadonlyMap<Address, MacAddress> {
  const asked = ports.flatMap(({ addresses }) => addresses);
  const replies = socket.batch(asked.map((address) => getNeighbour(bridge, address)));
  return new Map(
    asked.flatMap((address, position): readonly (readonly [Address, MacAddress])[] => {
      const message = replies[position]?.messages[0];
      const entry = message === undefined ? undefined : parseNeighbour(message);
      return entry?.permanent === true && entry.mac !== undefined ? [[address, entry.mac]] : [];
    }),
  );
}
