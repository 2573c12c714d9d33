import { DrawbridgeError } from "../../kernel/error.ts";
import type { NetlinkSocket } from "../../kernel/netlink/socket.ts";
import { findLink, openRouteSocket } from "../../kernel/route/socket.ts";
import type { PluginMachine } from "../host.ts";

/**
 * Settings that an interface inherits from `default` when it is made.
 *
 * The pod follows no redirects and accepts no router advertisements. IPv6 addresses answer at once, without a second of
 * duplicate address detection, which hairpin would echo anyway (POD-23). IPv4 follows redirects unless both `all` and
 * the interface forbid it (IN_DEV_RX_REDIRECTS); for IPv6 only the interface counts.
 */
const podSettings = [
  ["net/ipv4/conf/all/accept_redirects", "0"],
  ["net/ipv4/conf/default/accept_redirects", "0"],
  ["net/ipv6/conf/default/accept_redirects", "0"],
  ["net/ipv6/conf/default/accept_ra", "0"],
  ["net/ipv6/conf/default/accept_dad", "0"],
] as const;

/** Links on which the pod needs IPv6: those that will be made, and the one by which it reaches its own address. */
const IPV6_LINKS = ["default", "lo"] as const;

/**
 * Prepares the namespace the calling thread is in for an interface that will be made there.
 *
 * @param needsIpv6 whether the interface gets an IPv6 address. A sandbox may have IPv6 off (docker's `--sysctl`), and
 *   the kernel then refuses the address; the reference plugins turn IPv6 on, too (ConfigureIface of pkg/ipam)
 * @returns a socket of that namespace
 * @throws DrawbridgeError ERR_DUPLICATE when it already has an interface of this name, which stays untouched (B5)
 */
export function prepareNamespace(node: PluginMachine, ifname: string, needsIpv6: boolean): NetlinkSocket {
  const socket = openRouteSocket(node.syscalls);
  if (findLink(socket, { name: ifname }) !== undefined) {
    throw new DrawbridgeError(
      "ERR_DUPLICATE",
      `CNI_IFNAME: ${JSON.stringify(ifname)} already exists in the pod; call DEL first`,
    );
  }
  for (const [key, value] of podSettings) node.sysctl.write(key, value);
  if (needsIpv6) enableIpv6(node);
  return socket;
}

/** Turns IPv6 on in the namespace the calling thread is in, for the interface that will be made there. */
export function enableIpv6(node: PluginMachine): void {
  if (node.sysctl.read(disableKey("default")) !== "1") return;
  for (const link of IPV6_LINKS) node.sysctl.write(disableKey(link), "0");
}

function disableKey(link: (typeof IPV6_LINKS)[number]): string {
  return `net/ipv6/conf/${link}/disable_ipv6`;
}
