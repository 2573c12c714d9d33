import { FAMILIES } from "../../kernel/ip/address.ts";
import { insideNamespace, type NetworkNamespace } from "../../kernel/network_namespace.ts";
import type { NetlinkSocket } from "../../kernel/netlink/socket.ts";
import { dumpAddresses, type InterfaceAddress, parseInterfaceAddress } from "../../kernel/route/interface_address.ts";
import { dumpRoutes, parseRouteOfAnyTable } from "../../kernel/route/route.ts";
import { findLink, openRouteSocket } from "../../kernel/route/socket.ts";
import type { PluginMachine } from "../host.ts";
import type { Observation } from "./comparison.ts";
import { type Expectation, familyOfRoute } from "./expectation.ts";

const LOOPBACK_INDEX = 1;

/**
 * Reads the state that CHECK compares from the kernel: about ten requests on two sockets.
 *
 * @param home the node's namespace, which the calling thread is in
 * @throws NetlinkError, SyscallError when the kernel refuses
 */
export function observe(
  node: PluginMachine,
  { bridge: bridgeName, hostInterface, ifname, routes }: Expectation,
  home: NetworkNamespace,
  namespace: NetworkNamespace,
): Observation {
  const socket = openRouteSocket(node.syscalls);
  try {
    const bridge = findLink(socket, { name: bridgeName });
    const bridgeAddresses = bridge === undefined ? [] : addressesOf(socket, bridge.index);
    const host = findLink(socket, { name: hostInterface });
    const podSocket = insideNamespace(node.syscalls, home, namespace, () => openRouteSocket(node.syscalls));
    try {
      const pod = findLink(podSocket, { name: ifname });
      const families = FAMILIES.filter((family) => routes.some((route) => familyOfRoute(route) === family));
      return {
        bridge,
        bridgeAddresses: bridgeAddresses.map(({ address }) => address.address),
        host,
        loopback: findLink(podSocket, { index: LOOPBACK_INDEX }),
        pod,
        podAddresses: pod === undefined ? [] : addressesOf(podSocket, pod.index),
        podRoutes: families
          .flatMap((family) => podSocket.dump(dumpRoutes(family)))
          .map(parseRouteOfAnyTable)
          .filter((route) => route !== undefined),
      };
    } finally {
      podSocket.close();
    }
  } finally {
    socket.close();
  }
}

function addressesOf(socket: NetlinkSocket, index: number): readonly InterfaceAddress[] {
  return socket
    .dump(dumpAddresses({ index }))
    .map(parseInterfaceAddress)
    .filter((found) => found !== undefined);
}
