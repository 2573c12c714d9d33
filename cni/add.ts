import { assignRequested } from "../ipam/allocator.ts";
import type { Allocation, AddressStore } from "../ipam/store.ts";
import { readAttachment, removeAttachment, writeAttachment } from "../ipam/attachment.ts";
import { DrawbridgeError } from "../kernel/error.ts";
import { familyOf, formatAddress } from "../kernel/ip/address.ts";
import type { NetlinkSocket } from "../kernel/netlink/socket.ts";
import type { NetworkNamespace } from "../kernel/network_namespace.ts";
import { insideNamespace } from "../kernel/network_namespace.ts";
import { deleteLink } from "../kernel/route/link.ts";
import { deleteNeighbour } from "../kernel/route/neighbour.ts";
import { waitUntilLocal, waitUntilUp } from "../kernel/route/readiness.ts";
import { findLink, openRouteSocket } from "../kernel/route/socket.ts";
import type { Bridge } from "./bridge.ts";
import { ensureBridge, ensureForwarding } from "./bridge.ts";
import type { BridgeConfiguration } from "./configuration.ts";
import { dnsOf } from "./dns.ts";
import type { Attachment } from "./environment.ts";
import { bridgeMac } from "./names.ts";
import type { Node } from "./node.ts";
import { openStore } from "./node.ts";
import { prepareNamespace } from "./pod_namespace.ts";
import type { AddResult } from "./result.ts";
import type { Wiring } from "./wiring.ts";
import { addResult, decideWiring, hostRequests, podRequests } from "./wiring.ts";

/**
 * Attaches a pod: the ADD verb.
 *
 * The order makes every point a safe one to be killed at. Addresses are claimed first; the record that names them is
 * written before the link exists; the link is made whole in one message. A DEL finds what is there by the record, or
 * by the container's id in the store and the interface's deterministic name. A failure undoes its own steps at once.
 *
 * @param home the node's namespace, in which the calling thread is
 * @param namespace the pod's
 * @throws DrawbridgeError, CniError: nothing is left behind then
 */
export function add(
  node: Node,
  configuration: BridgeConfiguration,
  attachment: Attachment,
  home: NetworkNamespace,
  namespace: NetworkNamespace,
): AddResult {
  const dns = dnsOf(node, configuration);
  // Asked again under the store's lock; a request no range serves must not leave a bridge behind.
  assignRequested(configuration.ipam.ranges, configuration.ipam.requested);
  const podSocket = insideNamespace(node.syscalls, home, namespace, () => prepareNamespace(node, attachment.ifname));
  refuseSecondAttachment(node, configuration, attachment);
  const hostSocket = openRouteSocket(node.syscalls);
  const bridge = ensureNodeBridge(node, hostSocket, configuration);
  const store = openStore(node, configuration);
  const allocations = store.allocate(configuration.ipam.ranges, attachment, configuration.ipam.requested, "caller");
  try {
    const wiring = decideWiring(configuration, attachment, allocations, node.sha256);
    writeRecord(node, configuration, attachment, namespace, wiring);
    wire(hostSocket, podSocket, wiring, bridge, namespace);
    return addResult(wiring, bridge, namespace.path, dns);
  } catch (error) {
    undo(node, configuration, attachment, store, allocations);
    throw error;
  }
}

/** A record of this boot says that this attachment exists: a runtime must DEL before it ADDs again. */
function refuseSecondAttachment(node: Node, configuration: BridgeConfiguration, attachment: Attachment): void {
  const record = readAttachment(configuration.runDir, configuration.name, attachment, node.files);
  if (record === undefined || record.bootId !== node.bootId()) return;
  const held = record.addresses.map(({ address }) => formatAddress(address)).join(", ");
  throw new DrawbridgeError(
    "ERR_DUPLICATE",
    `${held} has been allocated to ${attachment.containerId}, duplicate allocation is not allowed: call DEL first`,
  );
}

function ensureNodeBridge(node: Node, socket: NetlinkSocket, configuration: BridgeConfiguration): Bridge {
  const gateway = configuration.ipam.ranges[0]?.[0]?.gateway;
  const bridge = ensureBridge(socket, node.sysctl, {
    name: configuration.bridge,
    mac: bridgeMac(node.sha256, configuration.bridge, gateway === undefined ? "" : formatAddress(gateway)),
    mtu: configuration.mtu,
  });
  ensureForwarding(socket, node.sysctl, bridge.name);
  return bridge;
}

function writeRecord(
  node: Node,
  configuration: BridgeConfiguration,
  attachment: Attachment,
  namespace: NetworkNamespace,
  wiring: Wiring,
): void {
  const { pod } = attachment.arguments;
  writeAttachment(
    configuration.runDir,
    {
      version: 1,
      bootId: node.bootId(),
      network: configuration.name,
      containerId: attachment.containerId,
      ifname: attachment.ifname,
      netns: { path: namespace.path, inode: String(namespace.inode) },
      ...(pod === undefined ? {} : { pod }),
      addresses: wiring.addresses,
      mac: wiring.podMac,
      hostInterface: wiring.hostInterface,
      hostMac: wiring.hostMac,
      portMappings: [],
    },
    node.files,
  );
}

/**
 * Makes the link and both its ends. When that fails, the link and the neighbour entries are gone again; a link of
 * that name which was there before stays.
 */
function wire(
  hostSocket: NetlinkSocket,
  podSocket: NetlinkSocket,
  wiring: Wiring,
  bridge: Bridge,
  namespace: NetworkNamespace,
): void {
  const { gateways, link } = hostRequests(wiring, bridge, namespace.fd);
  const replies = hostSocket.batch([...gateways, ...link]);
  const created = replies[gateways.length]?.error === undefined;
  try {
    for (const [position, { error }] of replies.entries()) {
      const gatewayIsThere = position < gateways.length && error?.errnoName === "EEXIST";
      if (error !== undefined && !gatewayIsThere) throw error;
    }
    const podLink = findLink(podSocket, { name: wiring.ifname });
    if (podLink === undefined) {
      throw new DrawbridgeError(
        "ERR_NETLINK",
        `${wiring.ifname} vanished from ${namespace.path} right after it was made`,
      );
    }
    podSocket.requestAll(podRequests(wiring, bridge, podLink.index));
    waitUntilReady(hostSocket, podSocket, wiring, bridge);
  } catch (error) {
    hostSocket.batch([
      ...(created ? [deleteLink({ name: wiring.hostInterface })] : []),
      ...wiring.addresses.map(({ address }) => deleteNeighbour(bridge.index, address)),
    ]);
    throw error;
  }
}

/** The pod's first packet and the answer to it must get through, so ADD returns only when both directions work. */
function waitUntilReady(hostSocket: NetlinkSocket, podSocket: NetlinkSocket, wiring: Wiring, bridge: Bridge): void {
  for (const { address } of wiring.addresses) {
    if (familyOf(address) === 6) waitUntilLocal(podSocket, address);
  }
  waitUntilUp(hostSocket, { name: wiring.hostInterface });
  if (bridge.wasOperational) return;
  waitUntilUp(hostSocket, { index: bridge.index });
  for (const { address } of wiring.gateways) waitUntilLocal(hostSocket, address);
}

/** Takes back what a failed ADD claimed. Errors of that are swallowed: the first one is what the runtime must see. */
function undo(
  node: Node,
  configuration: BridgeConfiguration,
  attachment: Attachment,
  store: AddressStore,
  allocations: readonly Allocation[],
): void {
  const addresses = allocations.map(({ address }) => address.address);
  const steps: readonly (() => unknown)[] = [
    () => store.releaseAddresses(attachment, addresses),
    () => removeAttachment(configuration.runDir, configuration.name, attachment, node.files),
  ];
  for (const step of steps) {
    try {
      step();
    } catch (error) {
      if (!(error instanceof DrawbridgeError)) throw error;
    }
  }
}
