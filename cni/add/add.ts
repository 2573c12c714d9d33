import { attempt, DrawbridgeError } from "../../kernel/error.ts";
import type { AttachmentRecord } from "../../attachment/attachment.ts";
import { mayBeRecorded, writeAttachment } from "../../attachment/attachment_writer.ts";
import { hostInterfaceName } from "../../attachment/names_and_macs.ts";
import { asksForNodeRules } from "../../attachment/node_rules_need.ts";
import { assignRequested } from "../../ipam/allocator.ts";
import type { AddressStore, Allocation, Holding } from "../../ipam/store.ts";
import { familyOf, formatAddress } from "../../kernel/ip/address.ts";
import { type Cidr, cidrFamily } from "../../kernel/ip/cidr.ts";
import type { NetlinkSocket, Reply } from "../../kernel/netlink/socket.ts";
import { insideNamespace, type NetworkNamespace } from "../../kernel/network_namespace.ts";
import { deleteAddress } from "../../kernel/route/interface_address.ts";
import { deleteLink, type LinkIdentity } from "../../kernel/route/link.ts";
import { deleteNeighbour } from "../../kernel/route/neighbour.ts";
import { waitUntilLocal, waitUntilUp } from "../../kernel/route/readiness.ts";
import { deleteRoute } from "../../kernel/route/route.ts";
import { describedLink, openRouteSocket } from "../../kernel/route/socket.ts";
import type { BridgeConfiguration } from "../configuration/configuration.ts";
import { dnsOf } from "../configuration/dns.ts";
import { recordedRules } from "../configuration/node_rules_configuration.ts";
import type { AddressGiver } from "../delegation/foreign_ipam.ts";
import type { Attachment } from "../environment.ts";
import { openStore, type PluginMachine, rememberingSettings } from "../host.ts";
import { ensureNodeState } from "../node_state/ensure.ts";
import type { Registration } from "../registration.ts";
import type { AddResult, Dns } from "../result.ts";
import { makeDelayDevice, recordedBandwidth, type Shaping, shapingSteps } from "../wiring/shaping.ts";
import {
  addResult,
  type Bridge,
  decideWiring,
  DESCRIPTION,
  hostSteps,
  linkSteps,
  podSteps,
  type Step,
  type Wiring,
} from "../wiring/wiring.ts";
import { allowIpv6, bypassBridge, ensureNodeBridge, leaveToBridge, type PortOnBridge } from "./bridge.ts";
import { forgetDevice } from "../wiring/delay_devices.ts";
import { addressesOf, foreignAddresses, freshGateways, refuseOwnAddress } from "./bridge_addresses.ts";
import { hostRoute } from "../wiring/host_route.ts";
import { enableIpv6, prepareNamespace } from "./pod_namespace.ts";

/**
 * Attaches a pod: the ADD verb.
 *
 * The order makes it safe to be killed at any point. Addresses are claimed first, the record that names them is written
 * before the link exists, and the link is made whole in one message. A DEL finds what exists by the record, or by the
 * container's id in the store and the interface's deterministic name. A failure undoes its own steps at once.
 *
 * @param giver the external IPAM plugin that gives the addresses; its DEL is called when the ADD fails afterwards
 * @throws DrawbridgeError, CniError: a failed ADD leaves nothing, unless the kernel stopped answering and it is unknown
 *   whether the link exists; a DEL then finds it by the record
 */
export function add(
  node: PluginMachine,
  configuration: BridgeConfiguration,
  attachment: Attachment,
  { home, namespace }: Namespaces,
  giver?: AddressGiver,
): AddResult {
  const dns = dnsOf(node, configuration);
  // Checked again under the store's lock. A request that no range serves must not leave a new bridge on the node.
  assignRequested(configuration.ipam.ranges, configuration.ipam.requested);
  const inPod = <T>(action: () => T): T => insideNamespace(node.syscalls, home, namespace, action);
  const podSocket = inPod(() => prepareNamespace(node, attachment.ifname, configuration.hasIpv6));
  refuseSecondAttachment(node, configuration, attachment);
  // Only now: if the pod is attached already, giving addresses and taking them back would free the addresses it holds.
  const given = giver?.give();
  try {
    const addresses = given ?? { configuration, allocations: undefined };
    if (given?.configuration.hasIpv6 === true) inPod(() => enableIpv6(node));
    return attach(node, addresses, attachment, { podSocket, home, namespace, dns: given?.configuration.dns ?? dns });
  } catch (error) {
    const isWiringFailure = error instanceof WiringFailure;
    // When the link may still exist, the addresses stay reserved for the DEL that removes it.
    if (!isWiringFailure || error.linkIsGone) giver?.takeBack();
    throw isWiringFailure ? error.cause : error;
  } finally {
    giver?.end();
  }
}

/** The node's namespace, which the calling thread is in, and the pod's. */
interface Namespaces {
  readonly home: NetworkNamespace;
  readonly namespace: NetworkNamespace;
}

/** A configuration, and the addresses if another program gave them. */
interface Addressing {
  readonly configuration: BridgeConfiguration;
  readonly allocations: readonly Allocation[] | undefined;
}

/** The place where a pod is attached. */
interface Place extends Namespaces {
  /** In the pod's namespace. */
  readonly podSocket: NetlinkSocket;
  readonly dns: Dns;
}

/** @throws WiringFailure and what {@link add} throws */
function attach(
  node: PluginMachine,
  { configuration, allocations: given }: Addressing,
  attachment: Attachment,
  { podSocket, home, namespace, dns }: Place,
): AddResult {
  const hostSocket = openRouteSocket(node.syscalls);
  const sysctl = rememberingSettings(node, configuration.runDir);
  const bridge = ensureNodeBridge(node, { socket: hostSocket, sysctl }, configuration);
  const own = addressesOf(hostSocket, bridge.index);
  refuseOwnAddress(bridge.name, own, given ?? []);
  const recorded = (): Generator<Holding> => node.deleting().recordedHoldings(node, configuration);
  const store = openStore(node, configuration.name, configuration.ipam.dataDir, recorded);
  let registration: Registration | undefined;
  const { ranges, requested } = configuration.ipam;
  const wanted = given?.map(({ address }) => address.address) ?? requested;
  const claim = (): readonly Allocation[] => {
    if (given === undefined) {
      const isForeign = foreignAddresses(node, hostSocket, configuration, { index: bridge.index, addresses: own });
      return store.allocate(ranges, attachment, requested, "caller", isForeign);
    }
    // Also reserves an external plugin's addresses: no two pods share one, and DEL finds them without a record.
    store.reserve(wanted, attachment);
    return given;
  };
  const isFreed = (): boolean => node.rare().detachHolders(node, configuration, wanted, attachment, home);
  const allocations = onceMore(claim, isFreed);
  let gateways: readonly Cidr[] = [];
  try {
    const wiring = decideWiring(configuration, attachment, allocations, bridge, node.sha256);
    gateways = freshGateways(node, hostSocket, configuration, { bridge, own }, wiring);
    if (gateways.some((one) => cidrFamily(one) === 6)) allowIpv6(sysctl, bridge.name);
    const record = recordOf(node, configuration, attachment, namespace, { wiring, bridge });
    writeAttachment(configuration.runDir, record, node.files);
    if (keepsRules(configuration)) node.nodeRules().publish(node, configuration, attachment, wiring);
    const { policyd, runDir } = configuration;
    registration = policyd && node.registering().register(node, policyd, record, { runDir });
    wire(node, { hostSocket, podSocket }, wiring, { bridge, runDir, gateways }, namespace);
    const parts = { syscalls: node.syscalls, socket: hostSocket, sysctl, runDir };
    // By then the daemon has made its part of the node's side: routes beside another bridge (FOREIGN-03).
    const confirm = (): void => ensureNodeState(parts, record, bridge.index, node);
    awaitRegistration({ registration, confirm }, hostSocket, wiring, bridge);
    return addResult(wiring, bridge, namespace.path, dns);
  } catch (error) {
    // When the link may still exist, the record and the addresses stay for the DEL that removes it.
    if (!(error instanceof WiringFailure) || error.linkIsGone) {
      // A pod that came meanwhile keeps its gateways.
      const forget = (): void => {
        if (gateways.length === 0 || recorded().next().done !== true) return;
        hostSocket.batch(gateways.map((address) => deleteAddress(bridge.index, address)));
      };
      undo(node, configuration, attachment, store, { allocations, isRegistered: registration !== undefined, forget });
    }
    throw error;
  }
}

/** Claims addresses, once more if one that another pod holds could be freed. */
function onceMore<T>(claim: () => T, isFreed: () => boolean): T {
  try {
    return claim();
  } catch (error) {
    const isHeld = error instanceof DrawbridgeError && error.code === "ERR_ADDRESS_UNAVAILABLE";
    if (!isHeld || !isFreed()) throw error;
    return claim();
  }
}

/** The kernel refused or did not answer while a pod was wired. `cause` is reported to the runtime. */
class WiringFailure extends Error {
  readonly linkIsGone: boolean;

  constructor(cause: unknown, linkIsGone: boolean) {
    super("wiring failed", { cause });
    this.linkIsGone = linkIsGone;
  }
}

/** Whether the plugin keeps the pod's rules itself. With a daemon, the daemon keeps them, from the record. */
function keepsRules(configuration: BridgeConfiguration): boolean {
  return configuration.policyd === undefined && asksForNodeRules(configuration);
}

/** Refuses an attachment that has a record of this boot: a runtime must call DEL before it calls ADD again. */
function refuseSecondAttachment(node: PluginMachine, configuration: BridgeConfiguration, attachment: Attachment): void {
  const { runDir, name } = configuration;
  if (!mayBeRecorded(runDir, name, attachment, node.files)) return;
  const record = node.deleting().readAttachment(runDir, name, attachment, node.files);
  if (record === undefined || record.bootId !== node.bootId()) return;
  const held = record.addresses.map(({ address }) => formatAddress(address)).join(", ");
  throw new DrawbridgeError(
    "ERR_DUPLICATE",
    `${held} has been allocated to ${attachment.containerId}, duplicate allocation is not allowed: call DEL first`,
  );
}

function recordOf(
  node: PluginMachine,
  configuration: BridgeConfiguration,
  attachment: Attachment,
  namespace: NetworkNamespace,
  { wiring, bridge }: { readonly wiring: Wiring; readonly bridge: Bridge },
): AttachmentRecord {
  const { pod } = attachment.arguments;
  return {
    version: 1,
    bootId: node.bootId(),
    network: configuration.name,
    dataDir: configuration.ipam.dataDir,
    bridge: configuration.bridge,
    containerId: attachment.containerId,
    ifname: attachment.ifname,
    netns: { path: namespace.path, inode: String(namespace.inode) },
    ...(pod === undefined ? {} : { pod }),
    addresses: wiring.addresses,
    mac: wiring.podMac,
    hostInterface: wiring.hostInterface,
    hostMac: wiring.hostMac,
    portMappings: configuration.portMappings,
    ...(configuration.ipMasq ? { ipMasq: true } : {}),
    ...(configuration.macspoofchk ? { macspoofchk: true } : {}),
    ...(wiring.shaping === undefined ? {} : { bandwidth: recordedBandwidth(wiring.shaping) }),
    ...(configuration.policyd === undefined ? {} : { policyd: recordedRules(configuration) }),
    host: {
      bridgeMac: bridge.mac,
      mtu: bridge.mtu,
      bridgeAddresses: wiring.bridgeAddresses,
      routes: wiring.hostRoutes,
      hairpin: wiring.hairpin,
      bypass: wiring.bypassBridge,
      isMacRequested: wiring.isMacRequested,
    },
  };
}

/**
 * Waits for the registration. The daemon got it before the link was made and has worked on it meanwhile. A pod that the
 * daemon does not accept must not stay.
 *
 * @throws WiringFailure
 */
function awaitRegistration(
  { registration, confirm }: { readonly registration: Registration | undefined; readonly confirm: () => void },
  hostSocket: NetlinkSocket,
  wiring: Wiring,
  bridge: Bridge,
): void {
  try {
    if (registration !== undefined) registration.wait();
    confirm();
  } catch (error) {
    throw new WiringFailure(error, takeBack(hostSocket, wiring, bridge, true));
  }
}

/** Sockets in the node's namespace and in the pod's. */
interface Sockets {
  readonly hostSocket: NetlinkSocket;
  readonly podSocket: NetlinkSocket;
}

/**
 * Makes the link and both its ends. When that fails, the link and the neighbour entries are removed again; a link of
 * that name that existed before stays.
 *
 * @throws WiringFailure
 */
function wire(
  node: PluginMachine,
  { hostSocket, podSocket }: Sockets,
  wiring: Wiring,
  { bridge, runDir, gateways }: Omit<PortOnBridge, "port"> & { readonly gateways: readonly Cidr[] },
  namespace: NetworkNamespace,
): void {
  let isCreated: boolean | undefined;
  try {
    const first = linkSteps(wiring, bridge, namespace.fd);
    const made = hostSocket.batch(first.map(({ request }) => request));
    isCreated = made[0]?.error === undefined;
    demand(first, made);
    const link = describedLink(made[DESCRIPTION]);
    const lead = wiring.bypassBridge ? bypassBridge : leaveToBridge;
    lead(node, hostSocket, { bridge, runDir, port: link.index }, wiring);
    // The limits come before the link's alias: policyd repairs them from then on.
    if (wiring.shaping !== undefined) shape(hostSocket, link.index, wiring, wiring.shaping);
    const steps = hostSteps(wiring, bridge);
    demand(steps, hostSocket.batch(steps.map(({ request }) => request)));
    const inside = podSteps(wiring, peerIndex(link));
    demand(inside, podSocket.batch(inside.map(({ request }) => request)));
    const isFresh = !bridge.wasOperational || gateways.length > 0;
    waitUntilReady(hostSocket, podSocket, wiring, isFresh ? bridge : undefined);
  } catch (error) {
    throw new WiringFailure(error, isCreated !== undefined && takeBack(hostSocket, wiring, bridge, isCreated));
  }
}

/** Limits the pod's bandwidth, before its end is up. @throws DrawbridgeError */
function shape(hostSocket: NetlinkSocket, hostIndex: number, wiring: Wiring, shaping: Shaping): void {
  const deviceIndex = makeDelayDevice(hostSocket, shaping, wiring.mtu);
  const steps = shapingSteps(shaping, wiring.alias, hostIndex, deviceIndex);
  demand(steps, hostSocket.batch(steps.map(({ request }) => request)));
}

/** The index of a veth's other end. Kernels before 5.10 omit it when both indexes are the same (nla_put_iflink). */
function peerIndex({ peer, index }: LinkIdentity): number {
  return peer ?? index;
}

/** Throws the first refusal that its step does not tolerate. @throws NetlinkError */
function demand(steps: readonly Step[], replies: readonly Reply[]): void {
  let position = 0;
  for (const { error } of replies) {
    if (error !== undefined && error.errnoName !== steps[position]?.tolerates) throw error;
    position++;
  }
}

/** Removes the link, neighbours and routes of a failed ADD. @returns whether no link of this attachment is left */
function takeBack(hostSocket: NetlinkSocket, wiring: Wiring, bridge: Bridge, isCreated: boolean): boolean {
  const neighbours = wiring.addresses.map(({ address }) => deleteNeighbour(bridge.index, address));
  try {
    const [deleted] = hostSocket.batch([
      ...(isCreated ? [deleteLink({ name: wiring.hostInterface })] : []),
      ...neighbours,
      ...wiring.hostRoutes.map((destination) => deleteRoute(hostRoute(destination, bridge.index))),
    ]);
    // When the host end existed before, its delay device may have existed too.
    if (isCreated && wiring.shaping?.fromPod !== undefined) forgetDevice(hostSocket, wiring.shaping.fromPod.device);
    return !isCreated || deleted?.error === undefined || deleted.error.errnoName === "ENODEV";
  } catch (error) {
    if (error instanceof DrawbridgeError) return false;
    throw error;
  }
}

/**
 * Waits until both directions work, so that the pod's first packet and its answer get through once ADD has returned.
 *
 * @param freshBridge the bridge, if it did not carry packets yet or one of its addresses is new
 */
function waitUntilReady(
  hostSocket: NetlinkSocket,
  podSocket: NetlinkSocket,
  wiring: Wiring,
  freshBridge: Bridge | undefined,
): void {
  for (const { address } of wiring.addresses) {
    if (familyOf(address) === 6) waitUntilLocal(podSocket, address);
  }
  waitUntilUp(hostSocket, { name: wiring.hostInterface });
  if (freshBridge === undefined) return;
  if (!freshBridge.wasOperational) waitUntilUp(hostSocket, { index: freshBridge.index });
  for (const { address } of wiring.bridgeAddresses) waitUntilLocal(hostSocket, address);
}

/** The claims of an ADD that fails. */
interface Claimed {
  readonly allocations: readonly Allocation[];
  /** Whether a daemon may have put the pod's addresses in force and then gone away. */
  readonly isRegistered: boolean;
  /** Takes back the addresses that the bridge got, after the record is gone. */
  readonly forget: () => void;
}

/** Takes back what a failed ADD claimed. Swallows errors of its own: the runtime must see the first one. */
function undo(
  node: PluginMachine,
  configuration: BridgeConfiguration,
  attachment: Attachment,
  store: AddressStore,
  { allocations, isRegistered, forget }: Claimed,
): void {
  const addresses = allocations.map(({ address }) => address.address);
  const owner = hostInterfaceName(node.sha256, attachment.containerId, attachment.ifname);
  const { policyd, name: network } = configuration;
  const { containerId, ifname } = attachment;
  const undone = policyd && node.registering().unregister(node, policyd, { network, containerId, ifname });
  const steps: readonly (() => unknown)[] = [
    () => {
      if (isRegistered && undone === "undone") node.nodeRules().forgetAddresses(node, addresses);
    },
    () => {
      if (!keepsRules(configuration)) return;
      node.nodeRules().withdraw(node, configuration.runDir, owner, { ...configuration, addresses });
    },
    () => store.releaseAddresses(attachment, addresses),
    () => node.deleting().removeAttachment(configuration.runDir, configuration.name, attachment, node.files),
    forget,
  ];
  for (const step of steps) attempt(step, () => {});
}
