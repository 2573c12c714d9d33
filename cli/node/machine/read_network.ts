import { fragmentSettings } from "../../../policyd/node/conntrack_settings.ts";
import { FAMILIES, type Family } from "../../../kernel/ip/address.ts";
import type { ReceivedMessage } from "../../../kernel/netlink/message.ts";
import { type DesiredBridge, desiredBridges } from "../../../cni/node_state/desired.ts";
import { observeBridge } from "../../../cni/node_state/netlink_kernel.ts";
import { EVERYTHING, type ObservedBridge } from "../../../cni/node_state/observed.ts";
import type { AttachmentRecord } from "../../../attachment/attachment.ts";
import { readOverview, type RulesetOverview } from "../../../kernel/nftables/decode/overview.ts";
import { listAddresses } from "../../../kernel/route/interface_address.ts";
import {
  dumpRoutes,
  MAIN_TABLE,
  parseRouteOfAnyTable,
  parseRouteOrDiscard,
  type Route,
} from "../../../kernel/route/route.ts";
import { NET, readOptional, withTables } from "../../../policyd/checks/read_machine.ts";
import type { MachineCalls } from "../../../kernel/syscall/machine_calls.ts";
import { withRouteSocket } from "../../../kernel/route/socket.ts";
import { procSysctl } from "../../../kernel/sysctl.ts";
import type { NodeAddress } from "../doctor/facts.ts";

/** Returns what the kernel lists of both families. */
export function readFamilies<T>(
  syscalls: MachineCalls,
  dump: (family: Family) => ReturnType<typeof dumpRoutes>,
  parse: (message: ReceivedMessage) => T | undefined,
): readonly T[] {
  return withRouteSocket(syscalls, (socket) =>
    FAMILIES.flatMap((family) => socket.dump(dump(family)).flatMap((message) => parse(message) ?? [])),
  );
}

export function readAddresses(syscalls: MachineCalls): readonly NodeAddress[] {
  return withRouteSocket(syscalls, (socket) => listAddresses(socket));
}

/** Returns the unicast routes of all tables in both families. */
export function readRoutes(syscalls: MachineCalls): readonly Route[] {
  return readFamilies(syscalls, dumpRoutes, parseRouteOfAnyTable);
}

/** Returns the routes of the main table that discard packets (blackhole, unreachable, prohibit) in both families. */
export function readDiscardingRoutes(syscalls: MachineCalls): readonly Route[] {
  return readFamilies(syscalls, dumpRoutes, parseRouteOrDiscard).flatMap(({ route, discards }) =>
    discards && route.table === MAIN_TABLE ? [route] : [],
  );
}

/** @throws NetlinkError EPERM without CAP_NET_ADMIN */
export function readRuleset(syscalls: MachineCalls): RulesetOverview {
  return withTables(syscalls, readOverview);
}

/** Returns the desired and observed state of each bridge with pods in the records. @throws DrawbridgeError */
export function readNodeState(
  syscalls: MachineCalls,
  records: readonly AttachmentRecord[],
): readonly { readonly desired: DesiredBridge; readonly observed: ObservedBridge }[] {
  const sysctl = procSysctl(syscalls);
  return withRouteSocket(syscalls, (socket) =>
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
    ...fragmentSettings(1).map(({ key }) => key),
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

/** Returns the loaded tables of the older iptables, with the family. */
export function readLegacyTables(): readonly string[] {
  return (["ip", "ip6"] as const).flatMap((family) =>
    readOptional(`${NET}/${family}_tables_names`)
      .split("\n")
      .filter((name) => name !== "")
      .map((name) => `${family} ${name}`),
  );
}
