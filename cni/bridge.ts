import { DrawbridgeError } from "../kernel/error.ts";
import type { MacAddress } from "../kernel/ip/mac.ts";
import { NetlinkError } from "../kernel/netlink/error.ts";
import type { NetlinkSocket } from "../kernel/netlink/socket.ts";
import type { Link } from "../kernel/route/link.ts";
import { changeLink, createBridge, OPERATIONAL_STATE_UP } from "../kernel/route/link.ts";
import { dumpRoutes, parseRoute } from "../kernel/route/route.ts";
import { findLink } from "../kernel/route/socket.ts";
import type { Sysctl } from "../kernel/sysctl.ts";

/** Routes learned from router advertisements (include/uapi/linux/rtnetlink.h). */
const RTPROT_RA = 9;

/** What the bridge should be. */
export interface BridgeSpec {
  readonly name: string;
  readonly mac: MacAddress;
  /** Bytes; 0 keeps what is there. */
  readonly mtu: number;
}

/** A bridge as found or made. */
export interface Bridge {
  readonly index: number;
  readonly name: string;
  readonly mac: MacAddress;
  readonly mtu: number;
  /** It already carried packets when it was found; without a port it does not. */
  readonly wasOperational: boolean;
}

/**
 * Finds the node's bridge or makes it: up, STP off, with a MAC of its own and the configured MTU.
 *
 * An existing bridge keeps its MAC, which running pods have as a permanent neighbour. Two first ADDs at once both
 * try to create it; the loser finds the winner's.
 *
 * @throws DrawbridgeError ERR_FOREIGN_OBJECT when the name is taken by something else, which stays as it is (B2)
 * @throws NetlinkError when the kernel refuses
 */
export function ensureBridge(socket: NetlinkSocket, sysctl: Sysctl, spec: BridgeSpec): Bridge {
  const link = findLink(socket, { name: spec.name }) ?? makeBridge(socket, sysctl, spec);
  if (link.kind !== "bridge") {
    throw new DrawbridgeError(
      "ERR_FOREIGN_OBJECT",
      `bridge: ${JSON.stringify(spec.name)} already exists but is not a bridge (kind ${link.kind ?? "unknown"}); choose another name or remove it`,
    );
  }
  const changes = {
    ...(link.up ? {} : { up: true }),
    ...(spec.mtu !== 0 && link.mtu !== spec.mtu ? { mtu: spec.mtu } : {}),
  };
  if (Object.keys(changes).length > 0) socket.request(changeLink({ index: link.index }, changes));
  return {
    index: link.index,
    name: link.name,
    mac: link.mac ?? spec.mac,
    mtu: spec.mtu === 0 ? link.mtu : spec.mtu,
    wasOperational: link.operationalState === OPERATIONAL_STATE_UP,
  };
}

function makeBridge(socket: NetlinkSocket, sysctl: Sysctl, spec: BridgeSpec): Link {
  try {
    socket.request(createBridge(spec));
  } catch (error) {
    if (!(error instanceof NetlinkError) || error.errnoName !== "EEXIST") throw error;
  }
  const link = findLink(socket, { name: spec.name });
  if (link === undefined) {
    throw new DrawbridgeError(
      "ERR_FOREIGN_OBJECT",
      `bridge: ${JSON.stringify(spec.name)} vanished right after it was made; try again`,
    );
  }
  // A pod must not be able to give the node routes or addresses by router advertisements (CVE-2020-10749).
  sysctl.write(`net/ipv6/conf/${spec.name}/accept_ra`, "0");
  // The bridge has no carrier before its first port, so its link-local address is not made yet and will skip detection.
  sysctl.write(`net/ipv6/conf/${spec.name}/accept_dad`, "0");
  return link;
}

/**
 * Makes the node forward in both families and send no redirects.
 *
 * Pods of one node are reached through one interface, so a router would tell them of a "shorter way" that leaves the
 * routed path. The kernel takes the larger of `all` and the interface's own send_redirects, so both are cleared.
 * Settings that already hold are not written (B20).
 *
 * @param socket used to spare the default routes learned from router advertisements: forwarding makes the kernel
 *   forget them unless accept_ra is 2 on their interface
 */
export function ensureForwarding(socket: NetlinkSocket, sysctl: Sysctl, bridge: string): void {
  setIfDifferent(sysctl, "net/ipv4/ip_forward", "1");
  if (sysctl.read("net/ipv6/conf/all/forwarding") === "0") {
    keepAdvertisedRoutes(socket, sysctl);
    sysctl.write("net/ipv6/conf/all/forwarding", "1");
  }
  setIfDifferent(sysctl, "net/ipv4/conf/all/send_redirects", "0");
  setIfDifferent(sysctl, `net/ipv4/conf/${bridge}/send_redirects`, "0");
}

function keepAdvertisedRoutes(socket: NetlinkSocket, sysctl: Sysctl): void {
  const indexes = new Set<number>();
  for (const message of socket.dump(dumpRoutes(6))) {
    const route = parseRoute(message);
    if (route?.protocol === RTPROT_RA && route.outputInterface !== undefined) indexes.add(route.outputInterface);
  }
  for (const index of indexes) {
    const link = findLink(socket, { index });
    if (link === undefined) continue;
    const key = `net/ipv6/conf/${link.name}/accept_ra`;
    if (sysctl.read(key) === "1") sysctl.write(key, "2");
  }
}

function setIfDifferent(sysctl: Sysctl, key: string, value: string): void {
  if (sysctl.read(key) !== value) sysctl.write(key, value);
}
