import { readdirSync, readFileSync } from "node:fs";
import { type DesiredBridge, desiredBridges } from "../../../cni/node_state/desired.ts";
import { observeBridge } from "../../../cni/node_state/netlink_kernel.ts";
import { EVERYTHING, type ObservedBridge } from "../../../cni/node_state/observed.ts";
import type { AttachmentRecord } from "../../../attachment/attachment.ts";
import { NETLINK_NETFILTER } from "../../../kernel/netlink/netfilter_message.ts";
import { NetlinkSocket } from "../../../kernel/netlink/socket.ts";
import { readOverview, type RulesetOverview } from "../../../kernel/nftables/decode/overview.ts";
import { dumpAddresses, parseInterfaceAddress } from "../../../kernel/route/interface_address.ts";
import { dumpLinks, parseLink } from "../../../kernel/route/link.ts";
import {
  dumpRoutes,
  MAIN_TABLE,
  parseRouteOfAnyTable,
  parseRouteOrDiscard,
  type Route,
} from "../../../kernel/route/route.ts";
import { openRouteSocket } from "../../../kernel/route/socket.ts";
import { parseVxlan } from "../../../kernel/route/vxlan.ts";
import type { MachineCalls } from "../../../kernel/syscall/machine_calls.ts";
import { procSysctl } from "../../../kernel/sysctl.ts";
import type { NodeAddress, NodeLink } from "../doctor/facts.ts";

/** Runs an action with a netlink socket for links and routes, and closes it afterwards. */
export function withRoutes<T>(syscalls: MachineCalls, action: (socket: NetlinkSocket) => T): T {
  const socket = openRouteSocket(syscalls);
  try {
    return action(socket);
  } finally {
    socket.close();
  }
}

export function readLinks(syscalls: MachineCalls): readonly NodeLink[] {
  return withRoutes(syscalls, (socket) =>
    socket.dump(dumpLinks()).map((message) => ({ ...parseLink(message), vxlan: parseVxlan(message) })),
  );
}

export function readAddresses(syscalls: MachineCalls, links: readonly NodeLink[]): readonly NodeAddress[] {
  const names = new Map(links.map(({ index, name }) => [index, name]));
  return withRoutes(syscalls, (socket) =>
    socket.dump(dumpAddresses()).flatMap((message) => {
      const found = parseInterfaceAddress(message);
      return found === undefined ? [] : [{ link: names.get(found.index) ?? "", address: found.address }];
    }),
  );
}

/** Returns the unicast routes of all tables in both families. */
export function readRoutes(syscalls: MachineCalls): readonly Route[] {
  return withRoutes(syscalls, (socket) =>
    ([4, 6] as const).flatMap((family) =>
      socket.dump(dumpRoutes(family)).flatMap((message) => parseRouteOfAnyTable(message) ?? []),
    ),
  );
}

/** Returns the routes of the main table that discard packets (blackhole, unreachable, prohibit) in both families. */
export function readDiscardingRoutes(syscalls: MachineCalls): readonly Route[] {
  return withRoutes(syscalls, (socket) =>
    ([4, 6] as const)
      .flatMap((family) => socket.dump(dumpRoutes(family)).flatMap((message) => parseRouteOrDiscard(message) ?? []))
      .flatMap(({ route, discards }) => (discards && route.table === MAIN_TABLE ? [route] : [])),
  );
}

/** @throws NetlinkError EPERM without CAP_NET_ADMIN */
export function readRuleset(syscalls: MachineCalls): RulesetOverview {
  const socket = new NetlinkSocket(syscalls, NETLINK_NETFILTER);
  try {
    return readOverview(socket);
  } finally {
    socket.close();
  }
}

/** Returns the desired and observed state of each bridge with pods in the records. @throws DrawbridgeError */
export function readNodeState(
  syscalls: MachineCalls,
  records: readonly AttachmentRecord[],
): readonly { readonly desired: DesiredBridge; readonly observed: ObservedBridge }[] {
  const sysctl = procSysctl(syscalls);
  return withRoutes(syscalls, (socket) =>
    desiredBridges(records).map((desired) => ({
      desired,
      observed: observeBridge({ socket, sysctl }, desired, EVERYTHING),
    })),
  );
}

/** Reads the settings that checks need; those that the kernel does not have are absent. */
export function readSettings(syscalls: MachineCalls, links: readonly string[]): ReadonlyMap<string, string> {
  const sysctl = procSysctl(syscalls);
  const ofLinks = ["all", ...links].flatMap((name) =>
    ["rp_filter", "send_redirects", "forwarding", "route_localnet"].map((field) => `net/ipv4/conf/${name}/${field}`),
  );
  const keys = [
    "net/ipv4/ip_forward",
    "net/ipv6/conf/all/forwarding",
    "net/ipv6/conf/all/disable_ipv6",
    "net/netfilter/nf_conntrack_count",
    "net/netfilter/nf_conntrack_max",
    "net/bridge/bridge-nf-call-iptables",
    "net/bridge/bridge-nf-call-ip6tables",
    "net/bridge/bridge-nf-filter-vlan-tagged",
    ...ofLinks,
  ];
  return new Map(
    keys.flatMap((key) => {
      const value = sysctl.read(key);
      return value === undefined ? [] : [[key, value] as const];
    }),
  );
}

/** The namespace of this thread; /proc/net would be that of the process's first thread. */
const NET = "/proc/thread-self/net";

/** Returns the local ports of UDP sockets, including those of kernel tunnels. */
export function readUdpPorts(): ReadonlySet<number> {
  return portsIn(["udp", "udp6"], /^\s*\d+: [0-9A-F]+:([0-9A-F]{4}) /);
}

/** Returns the ports that TCP sockets listen on (state 0A, TCP_LISTEN). */
export function readTcpPorts(): ReadonlySet<number> {
  return portsIn(["tcp", "tcp6"], /^\s*\d+: [0-9A-F]+:([0-9A-F]{4}) [0-9A-F]+:[0-9A-F]{4} 0A /);
}

function portsIn(files: readonly string[], pattern: RegExp): ReadonlySet<number> {
  const lines = files.flatMap((file) => readOptional(`${NET}/${file}`).split("\n").slice(1));
  return new Set(
    lines.flatMap((line) => {
      const [, port] = pattern.exec(line) ?? [];
      return port === undefined ? [] : [Number.parseInt(port, 16)];
    }),
  );
}

/** Returns the loaded tables of the older iptables, with the family. */
export function readLegacyTables(): readonly string[] {
  return (["ip", "ip6"] as const).flatMap((family) =>
    readOptional(`${NET}/${family}_tables_names`)
      .split("\n")
      .filter((name) => name !== "")
      .map((name) => `${family} ${name}`),
  );
}

/** Returns whether packets can be logged by netlink (CONFIG_NETFILTER_NETLINK_LOG). */
export function hasPacketLog(): boolean {
  try {
    return readdirSync(`${NET}/netfilter`).includes("nfnetlink_log");
  } catch {
    return false;
  }
}

function readOptional(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
