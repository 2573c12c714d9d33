import { DrawbridgeError } from "../../kernel/error.ts";
import type { Address } from "../../kernel/ip/address.ts";
import type { Cidr } from "../../kernel/ip/cidr.ts";
import type { MacAddress } from "../../kernel/ip/mac.ts";
import type { NetlinkSocket, Reply } from "../../kernel/netlink/socket.ts";
import { dumpPortEntries, getPortEntry, parsePortEntry } from "../../kernel/route/forwarding_entry.ts";
import { dumpAddresses, parseInterfaceAddress } from "../../kernel/route/interface_address.ts";
import { dumpLinks, getLink, type Link, parseLink } from "../../kernel/route/link.ts";
import { dumpNeighbours, getNeighbour, parseNeighbour } from "../../kernel/route/neighbour.ts";
import { findLink } from "../../kernel/route/socket.ts";
import type { Sysctl } from "../../kernel/sysctl.ts";
import { parsePortFilter } from "../../kernel/traffic_control/receive_at_bridge.ts";
import { dumpReceivedFilters } from "../../kernel/traffic_control/redirect.ts";
import type { DesiredBridge, DesiredPort } from "./desired.ts";
import type { NodeStateKernel, ObservedBridge, ObservedFilters, ObservedPort, Scope } from "./observed.ts";
import { carryOutSteps, type StepMachine } from "./carry_out.ts";
import { readWays } from "./ways.ts";

/** For more ports than these, all links are listed, which costs as much as this many requests. */
const ASKED_ONE_BY_ONE = 16;

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
 * Reads the state of a bridge: by a few requests for each port, or by lists if there are many.
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
  const isList = wanted.length > ASKED_ONE_BY_ONE;
  const links = isList ? listLinks(socket) : askLinks(socket, wanted);
  const entries = isList ? listEntries(socket, link.index) : askEntries(socket, wanted, links);
  const ports = new Map(
    wanted.map((port): [string, ObservedPort] => {
      const found = links.get(port.name);
      const hasFilters = scope.hasFilters && found !== undefined;
      const filters = hasFilters ? readFilters(socket, found.index) : undefined;
      return [port.name, { link: found, entry: entries(port), filters }];
    }),
  );
  return {
    link,
    addresses: readAddresses(socket, link.index),
    settings,
    ports,
    ways: readWays(socket, addressesToLookUp(desired, wanted, scope)),
    neighbours: isList ? listNeighbours(socket, desired, link.index) : askNeighbours(socket, wanted, link.index),
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

function listLinks(socket: Pick<NetlinkSocket, "dump">): ReadonlyMap<string, Link> {
  return new Map(socket.dump(dumpLinks()).map((message) => named(parseLink(message))));
}

function askLinks(socket: Pick<NetlinkSocket, "batch">, ports: readonly DesiredPort[]): ReadonlyMap<string, Link> {
  const replies = socket.batch(ports.map(({ name }) => getLink({ name })));
  return new Map(
    replies.flatMap(({ messages: [message] }) => (message === undefined ? [] : [named(parseLink(message))])),
  );
}

function named(link: Link): readonly [string, Link] {
  return [link.name, link];
}

type EntryOf = (port: DesiredPort) => ObservedPort["entry"];

function listEntries(socket: Pick<NetlinkSocket, "dump">, bridge: number): EntryOf {
  const places = new Map<MacAddress, number>();
  for (const message of socket.dump(dumpPortEntries(bridge))) {
    const entry = parsePortEntry(message);
    if (entry !== undefined && entry.port !== bridge) places.set(entry.mac, entry.port);
  }
  return ({ podMac }) => places.get(podMac);
}

function askEntries(
  socket: Pick<NetlinkSocket, "batch">,
  ports: readonly DesiredPort[],
  links: ReadonlyMap<string, Link>,
): EntryOf {
  // The kernel passes the request on to the port's bridge.
  const asked = ports.filter(({ name }) => links.get(name)?.master !== undefined);
  const replies = socket.batch(asked.map(({ name, podMac }) => getPortEntry(links.get(name)?.index ?? 0, podMac)));
  const found = new Map(asked.map(({ name }, position) => [name, entryOf(replies[position])]));
  return ({ name }) => found.get(name);
}

function entryOf(reply: Reply | undefined): ObservedPort["entry"] {
  const [message] = reply?.messages ?? [];
  if (message !== undefined) return parsePortEntry(message)?.port;
  // Linux before 5.0 does not support the request.
  return reply?.error?.errnoName === "ENOENT" ? undefined : "unknown";
}

function readFilters(socket: Pick<NetlinkSocket, "dump">, index: number): ObservedFilters {
  try {
    const filters = socket.dump(dumpReceivedFilters(index)).flatMap((message) => parsePortFilter(message) ?? []);
    return {
      hasPlace: true,
      targets: filters.flatMap(({ isOurs, target }) => (isOurs ? [target] : [])),
      hasOthers: filters.some(({ isOurs }) => !isOurs),
    };
  } catch (error) {
    if (!(error instanceof DrawbridgeError)) throw error;
    return { hasPlace: false, targets: [], hasOthers: false };
  }
}

/** Returns the addresses of a link; kernels before 4.20 list those of all links. */
function readAddresses(socket: Pick<NetlinkSocket, "dump">, index: number): readonly Cidr[] {
  return socket
    .dump(dumpAddresses({ index }))
    .map(parseInterfaceAddress)
    .flatMap((found) => (found?.index === index ? [found.address] : []));
}

function addressesToLookUp(
  { ports }: DesiredBridge,
  wanted: readonly DesiredPort[],
  { ways }: Scope,
): readonly Address[] {
  const own = (ways === "all" ? [...ports.values()] : wanted).flatMap(({ addresses }) => addresses);
  return [...new Set([...own, ...(ways === "all" ? [] : ways)])];
}

function listNeighbours(
  socket: Pick<NetlinkSocket, "dump">,
  { families }: DesiredBridge,
  bridge: number,
): ReadonlyMap<Address, MacAddress> {
  const all = families.flatMap((family) => socket.dump(dumpNeighbours(family, bridge)).map(parseNeighbour));
  return new Map(
    all.flatMap((entry) =>
      entry?.permanent === true && entry.index === bridge && entry.mac !== undefined
        ? [[entry.address, entry.mac] as const]
        : [],
    ),
  );
}

function askNeighbours(
  socket: Pick<NetlinkSocket, "batch">,
  ports: readonly DesiredPort[],
  bridge: number,
): ReadonlyMap<Address, MacAddress> {
  const asked = ports.flatMap(({ addresses, podMac }) => addresses.map((address) => ({ address, podMac })));
  const replies = socket.batch(asked.map(({ address }) => getNeighbour(bridge, address)));
  return new Map(
    asked.flatMap(({ address, podMac }, position): readonly (readonly [Address, MacAddress])[] => {
      const reply = replies[position];
      const [message] = reply?.messages ?? [];
      const entry = message === undefined ? undefined : parseNeighbour(message);
      if (entry?.permanent === true && entry.mac !== undefined) return [[address, entry.mac]];
      // Linux before 5.0 does not support the request; the entry then counts as present.
      return message === undefined && reply?.error?.errnoName !== "ENOENT" ? [[address, podMac]] : [];
    }),
  );
}
