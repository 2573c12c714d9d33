import type { BridgeConfiguration } from "../configuration/configuration.ts";
import type { Bridge } from "../wiring/wiring.ts";
import { DrawbridgeError } from "../../kernel/error.ts";
import type { MacAddress } from "../../kernel/ip/mac.ts";
import type { NetlinkSocket } from "../../kernel/netlink/socket.ts";
import { listAddresses } from "../../kernel/route/interface_address.ts";
import {
  changeLink,
  createBridge,
  dumpLinks,
  getLink,
  type Link,
  type LinkChange,
  OPERATIONAL_STATE_UNKNOWN,
  OPERATIONAL_STATE_UP,
  parseLink,
} from "../../kernel/route/link.ts";
import { dumpRoutes, parseRoute } from "../../kernel/route/route.ts";
import { findLink } from "../../kernel/route/socket.ts";
import type { Sysctl } from "../../kernel/sysctl.ts";
import { protectingSettings } from "../node_state/desired.ts";
import { bridgeMac } from "../../attachment/names_and_macs.ts";
import { CHECKSUM_PROGRAM, filterChecksums } from "../../kernel/bpf/checksum_filter.ts";
import { hasOwnProgram } from "../../kernel/bpf/own_program.ts";
import { formatAddress, SMALLEST_IPV6_MTU } from "../../kernel/ip/address.ts";
import { CniError, CniErrorCode } from "../error.ts";
import type { PluginMachine } from "../host.ts";
import { withDirectoryLock } from "../../kernel/file_lock.ts";

/**
 * Finds or makes the configured bridge, switches forwarding on, and has the bridge filter checksums where the kernel
 * can; elsewhere `node doctor` reports it.
 *
 * @throws CniError for an MTU that is too small for IPv6, and what {@link ensureBridge} throws
 */
export function ensureNodeBridge(
  node: PluginMachine,
  { socket, sysctl }: { readonly socket: NetlinkSocket; readonly sysctl: Sysctl },
  configuration: BridgeConfiguration,
): Bridge {
  const gateway = configuration.ipam.ranges[0]?.[0]?.gateway;
  const bridge = ensureBridge(socket, sysctl, {
    name: configuration.bridge,
    mac: bridgeMac(node.sha256, configuration.bridge, gateway === undefined ? "" : formatAddress(gateway)),
    mtu: configuration.mtu,
  });
  ensureForwarding(socket, sysctl, bridge.name);
  const programs = { syscalls: node.syscalls, socket };
  if (!hasOwnProgram(programs, CHECKSUM_PROGRAM, bridge.index)) {
    node.files.makeDirectory(configuration.runDir, 0o700);
    // Of many first calls after a boot, only one reads the kernel's types.
    withDirectoryLock(node.syscalls, configuration.runDir, () =>
      filterChecksums(programs, bridge.index, (files) => node.rare().kernelChecksumProgram(files)),
    );
  }
  if (bridge.mtu < SMALLEST_IPV6_MTU && configuration.hasIpv6) {
    throw new CniError(
      CniErrorCode.INVALID_CONFIGURATION,
      `bridge: ${JSON.stringify(bridge.name)} has an MTU of ${bridge.mtu}; expected ${SMALLEST_IPV6_MTU} at least for IPv6: set mtu`,
    );
  }
  return bridge;
}

/** Routes learned from router advertisements (include/uapi/linux/rtnetlink.h). */
const RTPROT_RA = 9;

/** The desired bridge. */
export interface BridgeSpec {
  readonly name: string;
  readonly mac: MacAddress;
  /** Bytes, of pods' links; 0 keeps the current value. The bridge is not raised above its ports. */
  readonly mtu: number;
}

/**
 * Finds the node's bridge or makes it: STP off, a MAC of its own, the configured MTU, and up as the last step.
 *
 * An existing bridge keeps its MAC, which running pods have as a permanent neighbour; setting the same MAC again keeps
 * the kernel from taking over a port's MAC. When two first ADDs create the bridge at once, the loser finds the winner's
 * bridge. Every ADD that finds it down makes it ready, so a kill in between leaves nothing half done.
 *
 * @throws DrawbridgeError ERR_FOREIGN_OBJECT when something else has the name, which stays as it is (B2)
 * @throws NetlinkError when the kernel refuses
 */
function ensureBridge(socket: NetlinkSocket, sysctl: Sysctl, spec: BridgeSpec): Bridge {
  const found = findLink(socket, { name: spec.name });
  const link = found ?? makeBridge(socket, spec);
  // Rules match the name itself, and the kernel finds a link by an alternative name, too.
  const isOther = link.name !== spec.name;
  if (isOther || link.kind !== "bridge") {
    const problem = isOther
      ? `is an alternative name of ${link.name}`
      : `is not a bridge (kind ${link.kind ?? "unknown"})`;
    throw new DrawbridgeError(
      "ERR_FOREIGN_OBJECT",
      `bridge: ${JSON.stringify(spec.name)} already exists but ${problem}; choose another name or remove it`,
    );
  }
  if (!link.up) protectBridge(sysctl, spec.name);
  const mtu = spec.mtu > link.mtu && found !== undefined ? largestMtu(socket, link, spec.mtu) : spec.mtu;
  const changes = changesOf(link, { ...spec, mtu });
  if (Object.keys(changes).length > 0) socket.request(changeLink({ index: link.index }, changes));
  const now = link.up ? link : (findLink(socket, { index: link.index }) ?? link);
  return {
    index: link.index,
    name: link.name,
    mac: link.mac ?? spec.mac,
    mtu: spec.mtu === 0 ? link.mtu : spec.mtu,
    wasOperational: carriesPackets(now),
  };
}

/**
 * Returns the MTU to which a bridge may be raised. A port drops the packets that are larger than its own MTU silently
 * (is_skb_forwardable, do_dev_forward), where the bridge makes the node send fragments or "packet too big". But less than
 * IPv6 needs would keep its addresses from the bridge.
 */
function largestMtu(socket: NetlinkSocket, { index, mtu }: Link, wanted: number): number {
  const ofPorts = socket.dump(dumpLinks(index)).map((message) => parseLink(message).mtu);
  return Math.max(mtu, Math.min(wanted, Math.max(SMALLEST_IPV6_MTU, Math.min(...ofPorts))));
}

/** Returns the changes that an existing bridge needs. */
function changesOf(link: Link, spec: BridgeSpec): LinkChange {
  return {
    ...(link.mac !== undefined && link.mac !== spec.mac ? { mac: link.mac } : {}),
    ...(spec.mtu !== 0 && link.mtu !== spec.mtu ? { mtu: spec.mtu } : {}),
    ...(link.up ? {} : { up: true }),
  };
}

/**
 * Whether the bridge carries packets.
 *
 * A bridge made without a MAC of its own has a carrier before its first port, so the kernel sees no change when that
 * port comes and leaves the state unknown. A bridge made with a MAC has no carrier until then
 * (br_stp_change_bridge_id).
 */
function carriesPackets(link: Link): boolean {
  return (
    link.operationalState === OPERATIONAL_STATE_UP ||
    (link.operationalState === OPERATIONAL_STATE_UNKNOWN && link.carrier)
  );
}

/** Makes the bridge, or finds the one that another call has just made. */
function makeBridge(socket: NetlinkSocket, spec: BridgeSpec): Link {
  const [created, described] = socket.batch([createBridge(spec), getLink({ name: spec.name })]);
  if (created?.error !== undefined && created.error.errnoName !== "EEXIST") throw created.error;
  const [message] = described?.messages ?? [];
  if (message !== undefined) return parseLink(message);
  throw new DrawbridgeError(
    "ERR_FOREIGN_OBJECT",
    `bridge: ${JSON.stringify(spec.name)} vanished right after it was made; try again`,
  );
}

/**
 * Protects a bridge before it is up, since it has neither routes nor addresses until then.
 *
 * A pod must not be able to give the node routes or addresses by router advertisements (CVE-2020-10749), and the
 * bridge's own link-local address must not wait for duplicate address detection. Nor does the node serve pods as a
 * waypoint (protectingSettings).
 */
function protectBridge(sysctl: Sysctl, name: string): void {
  sysctl.write(`net/ipv6/conf/${name}/accept_dad`, "0");
  for (const [key, value] of protectingSettings(name)) setIfDifferent(sysctl, key, value);
}

/** Lets a bridge have IPv6 addresses. A new link takes the setting from `default`, which turns IPv6 off on some nodes. */
export function allowIpv6(sysctl: Sysctl, bridge: string): void {
  setIfDifferent(sysctl, `net/ipv6/conf/${bridge}/disable_ipv6`, "0");
}

/**
 * Makes the node forward in both families and send no redirects.
 *
 * Pods of one node are reached through one interface, so a router would send them redirects to a "shorter way" that
 * leaves the routed path. The kernel uses the larger of `all` and the interface's own send_redirects, so both are
 * cleared. Settings that already have the right value are not written (B20).
 *
 * @param socket used to keep what the node has from router advertisements: when forwarding is turned on, the kernel
 *   forgets the routes, and renews the addresses no more, unless accept_ra is 2 on their interface
 */
function ensureForwarding(socket: NetlinkSocket, sysctl: Sysctl, bridge: string): void {
  setIfDifferent(sysctl, "net/ipv4/ip_forward", "1");
  if (sysctl.read("net/ipv6/conf/all/forwarding") === "0") {
    keepAdvertised(socket, sysctl);
    sysctl.write("net/ipv6/conf/all/forwarding", "1");
  }
  setIfDifferent(sysctl, "net/ipv4/conf/all/send_redirects", "0");
  setIfDifferent(sysctl, `net/ipv4/conf/${bridge}/send_redirects`, "0");
}

function keepAdvertised(socket: NetlinkSocket, sysctl: Sysctl): void {
  const indexes = new Set<number>();
  for (const message of socket.dump(dumpRoutes(6))) {
    const route = parseRoute(message);
    if (route?.protocol === RTPROT_RA && route.outputInterface !== undefined) indexes.add(route.outputInterface);
  }
  for (const { permanent, index } of listAddresses(socket, { family: 6 })) if (!permanent) indexes.add(index);
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
