import { parseCidr } from "../kernel/ip/cidr.ts";
import { insideNamespace, type NetworkNamespace } from "../kernel/network_namespace.ts";
import { changeLink } from "../kernel/route/link.ts";
import { findLink, openRouteSocket } from "../kernel/route/socket.ts";
import { CniError, CniErrorCode } from "./error.ts";
import type { PluginMachine } from "./host.ts";
import type { AddResult } from "./result.ts";

const LOOPBACK = "lo";

/**
 * Sets a namespace's loopback interface up or down, as the `loopback` plugin does, which containerd executes for every
 * sandbox.
 *
 * @throws NetlinkError, SyscallError
 */
export function setLoopback(
  node: PluginMachine,
  home: NetworkNamespace,
  namespace: NetworkNamespace,
  up: boolean,
): void {
  const socket = insideNamespace(node.syscalls, home, namespace, () => openRouteSocket(node.syscalls));
  socket.request(changeLink({ name: LOOPBACK }, { up }));
}

/**
 * Carries out the `loopback` plugin's CHECK. @throws CniError 107 if the interface is down; NetlinkError, SyscallError
 */
export function checkLoopback(node: PluginMachine, home: NetworkNamespace, namespace: NetworkNamespace): void {
  const socket = insideNamespace(node.syscalls, home, namespace, () => openRouteSocket(node.syscalls));
  if (findLink(socket, { name: LOOPBACK })?.up === true) return;
  throw new CniError(
    CniErrorCode.ATTACHMENT_BROKEN,
    `interface ${LOOPBACK} is down in ${namespace.path}; expected it up: call ADD`,
  );
}

/** Returns the result of the loopback plugin's ADD when no earlier plugin of the chain has one. */
export function loopbackResult(sandbox: string): AddResult {
  return {
    interfaces: [{ name: LOOPBACK, mac: "00:00:00:00:00:00", sandbox }],
    ips: ["127.0.0.1/8", "::1/128"].map((text) => ({ interface: 0, address: parseCidr(text) })),
    routes: [],
    dns: {},
  };
}
