import { withSocket, NetlinkSocket } from "../../kernel/netlink/socket.ts";
import { readFileSync } from "node:fs";
import os from "node:os";
import { DrawbridgeError } from "../../kernel/error.ts";
import { NETLINK_NETFILTER } from "../../kernel/netlink/netfilter_message.ts";
import { knowsPacketLog } from "../../kernel/packets/log_group.ts";
import { forwardDrops } from "../../kernel/nftables/decode/forward_drops.ts";
import { dumpLinks, parseLink } from "../../kernel/route/link.ts";
import { knowsLinkKind, type LinkKind } from "../../kernel/route/link_kind.ts";
import { withRouteSocket } from "../../kernel/route/socket.ts";
import { parseVxlan } from "../../kernel/route/vxlan.ts";
import type { FileCalls } from "../../kernel/syscall/file_calls.ts";
import type { Syscalls } from "../../kernel/syscall/syscalls.ts";
import { procSysctl } from "../../kernel/sysctl.ts";
import { boundPorts } from "../node/masquerade/taken_ports.ts";
import { type CheckedLink, type MachineFacts, type Seen, seen } from "../problems/check.ts";
import { kubeProxyPlaces } from "./kube_proxy.ts";
import { isOurName } from "./our_tables.ts";

/** The parts of the configuration and the routes that facts depend on. */
export interface MachinePlace {
  readonly bridge: string;
  /** The links of the node's default routes. */
  readonly uplinks: readonly string[];
  /** False where kube-proxy serves the Services. */
  readonly servesServices: boolean;
  readonly linkKinds: MachineFacts["linkKinds"];
  readonly links: MachineFacts["links"];
}

/** Reads the facts in the thread's namespace; they say what cannot be read. No table is tried on the kernel. */
export function readMachine(
  syscalls: Syscalls & FileCalls,
  { bridge, uplinks, servesServices, linkKinds, links }: MachinePlace,
): MachineFacts {
  const sysctl = procSysctl(syscalls);
  const settings = ["net/netfilter/nf_conntrack_count", "net/netfilter/nf_conntrack_max"] as const;
  return {
    now: Date.now(),
    bootId: attempt(() => readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim()),
    release: { value: os.release() },
    trials: { value: [] },
    linkKinds,
    hasPacketLog: readPacketLog(syscalls),
    settings: new Map(
      settings.flatMap((key) => {
        const value = sysctl.read(key);
        return value === undefined ? [] : [[key, value] as const];
      }),
    ),
    links,
    udpPorts: readPorts("udp"),
    bridge,
    forwardDrops: attempt(() => withTables(syscalls, (socket) => forwardDrops(socket, { bridge, uplinks }, isOurName))),
    kubeProxy: attempt(() => (servesServices ? withTables(syscalls, kubeProxyPlaces) : [])),
  };
}

/** Returns whether the kernel logs packets by netlink, or cannot be asked; it may load the module. */
export function readPacketLog(syscalls: Syscalls): boolean {
  return seen(attempt(() => withTables(syscalls, knowsPacketLog))) ?? true;
}

/** Returns whether the kernel has these kinds of links; it may load their modules. */
export function readLinkKinds(syscalls: Syscalls, kinds: readonly LinkKind[]): MachineFacts["linkKinds"] {
  return attempt(() =>
    withRouteSocket(syscalls, (socket) => kinds.map((kind) => ({ kind, isKnown: knowsLinkKind(socket, kind) }))),
  );
}

/** Returns the result of a read, or why the machine does not permit it. A bug is thrown. */
export function attempt<T>(see: () => T): Seen<T> {
  try {
    return { value: see() };
  } catch (error) {
    return unseenFor(error);
  }
}

/** Returns why a read that has thrown this error is not permitted. A bug is thrown. */
export function unseenFor(error: unknown): { readonly unseen: string; readonly needsRoot?: boolean } {
  const isRefusal = error instanceof DrawbridgeError || (error instanceof Error && "code" in error);
  if (!isRefusal) throw error;
  const reason = error.message;
  const needsRoot = /EPERM|EACCES/.test(reason) && process.geteuid?.() !== 0;
  return needsRoot ? { unseen: `${reason}; run as root`, needsRoot } : { unseen: reason };
}

/** Runs an action with a netlink socket for nftables, and closes it afterwards. */
export function withTables<T>(syscalls: Syscalls, action: (socket: NetlinkSocket) => T): T {
  return withSocket(new NetlinkSocket(syscalls, NETLINK_NETFILTER), action);
}

export function readLinks(syscalls: Syscalls): readonly CheckedLink[] {
  return withRouteSocket(syscalls, (socket) =>
    socket.dump(dumpLinks()).map((message) => ({ ...parseLink(message), vxlan: parseVxlan(message) })),
  );
}

/** The namespace of this thread; /proc/net would be that of the process's first thread. */
export const NET = "/proc/thread-self/net";

/** Returns the ports at which sockets receive: all of UDP, also of kernel tunnels, and those of TCP that listen. */
export function readPorts(protocol: "tcp" | "udp"): ReadonlySet<number> {
  const texts = [protocol, `${protocol}6`].map((file) => readOptional(`${NET}/${file}`));
  return new Set(texts.flatMap((text) => boundPorts(text, protocol)).map(({ first }) => first));
}

export function readOptional(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
