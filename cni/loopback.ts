import { parseCidr } from "../kernel/ip/cidr.ts";
import type { NetlinkSocket } from "../kernel/netlink/socket.ts";
import { insideNamespace } from "../kernel/network_namespace.ts";
import { changeLink } from "../kernel/route/link.ts";
import { findLink, openRouteSocket } from "../kernel/route/socket.ts";
import type { CallOf, DecodedCall } from "./decoded_call.ts";
import { CniError, CniErrorCode } from "./error.ts";
import type { PluginMachine } from "./host.ts";
import { formatJson } from "./json.ts";
import { type Namespaces, withNamespaces, withPod } from "./pod_lock.ts";
import type { AddResult } from "./result.ts";

const LOOPBACK = "lo";

/**
 * Carries out a verb as the `loopback` plugin, which containerd executes for every sandbox: the pod's loopback
 * interface is up from ADD to DEL. GC and STATUS always succeed.
 *
 * @returns the text for standard output
 * @throws CniError 107 for a CHECK of an interface that is down; NetlinkError, SyscallError
 */
export function serveLoopback(node: PluginMachine, decoded: DecodedCall): string {
  switch (decoded.verb) {
    case "ADD":
      return addLoopback(node, decoded);
    case "CHECK":
      withPod(node, decoded.call, decoded.attachment, (namespaces) => checkLoopback(node, namespaces));
      return "";
    case "DEL":
      withNamespaces(node, decoded.call, decoded.attachment, ({ home, namespace }) => {
        if (namespace !== undefined) setLoopback(node, { home, namespace }, false);
      });
      return "";
    case "GC":
    case "STATUS":
      return "";
  }
}

function addLoopback(node: PluginMachine, { call, attachment, input }: CallOf<"ADD">): string {
  const { cniVersion: version, prevResult } = input;
  const previous = prevResult && node.rare().previousResult(prevResult, call.stdin);
  return withPod(node, call, attachment, (namespaces) => {
    setLoopback(node, namespaces, true);
    return formatJson(
      previous === undefined
        ? node.adding().resultObject(loopbackResult(namespaces.namespace.path), version)
        : node.rare().unchangedResult(previous, version),
    );
  });
}

/** Sets the loopback interface up or down, as the reference plugin does. */
function setLoopback(node: PluginMachine, namespaces: Namespaces, up: boolean): void {
  podSocket(node, namespaces).request(changeLink({ name: LOOPBACK }, { up }));
}

function checkLoopback(node: PluginMachine, namespaces: Namespaces): void {
  if (findLink(podSocket(node, namespaces), { name: LOOPBACK })?.up === true) return;
  throw new CniError(
    CniErrorCode.ATTACHMENT_BROKEN,
    `interface ${LOOPBACK} is down in ${namespaces.namespace.path}; expected it up: call ADD`,
  );
}

function podSocket(node: PluginMachine, { home, namespace }: Namespaces): NetlinkSocket {
  return insideNamespace(node.syscalls, home, namespace, () => openRouteSocket(node.syscalls));
}

/** Returns the result of an ADD when no earlier plugin of the chain has one. */
function loopbackResult(sandbox: string): AddResult {
  return {
    interfaces: [{ name: LOOPBACK, mac: "00:00:00:00:00:00", sandbox }],
    ips: ["127.0.0.1/8", "::1/128"].map((text) => ({ interface: 0, address: parseCidr(text) })),
    routes: [],
    dns: {},
  };
}
