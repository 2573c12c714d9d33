import {
  type AttachmentRecord,
  readAttachment,
  recordsOfOtherNetworks,
  removeAttachment,
} from "../../attachment/attachment.ts";
import type { AddressStore, ReleaseSteps } from "../../ipam/store.ts";
import type { Address } from "../../kernel/ip/address.ts";
import { insideNamespace, type NetworkNamespace } from "../../kernel/network_namespace.ts";
import type { NetlinkSocket } from "../../kernel/netlink/socket.ts";
import { deleteLink, getLink, parseLink } from "../../kernel/route/link.ts";
import { deleteNeighbour } from "../../kernel/route/neighbour.ts";
import { deleteRoute } from "../../kernel/route/route.ts";
import { findLink, openRouteSocket } from "../../kernel/route/socket.ts";
import { hostCidr } from "../../kernel/ip/cidr.ts";
import { delegatedDirectory } from "../delegation/foreign_ipam.ts";
import type { DetachConfiguration } from "../configuration/detach_configuration.ts";
import type { Attachment } from "../environment.ts";
import { hostInterfaceName } from "../../attachment/names_and_macs.ts";
import { type PluginMachine, openStore } from "../host.ts";
import { unregister, type Unregistration } from "../registration.ts";
import { asksForNodeRules } from "../configuration/node_rules_configuration.ts";
import { hostRoute } from "../wiring/wiring.ts";
import { delayDeviceOf, forgetDevice, mayBeDelayed } from "../wiring/shaping.ts";

/**
 * Detaches a pod: the DEL verb. It is repeatable, and complete from any state an ADD can be killed in.
 *
 * The link goes first, then the pod's elements in the node's tables, then the addresses, then the record: an address
 * becomes free only once nothing answers to it, and the record that names the addresses outlives them. Without a record
 * (an ADD killed before it, another boot, a pod of the reference plugin), DEL finds the addresses by the container's id
 * in the store and the elements by the host end's name; with a daemon, which keeps the elements, the plugin reads no
 * table. The record, not the configuration, says where these things are, since the configuration may have changed. DEL
 * does not touch what another network's record names.
 *
 * @param namespace the pod's, or undefined when it is gone
 * @throws NetlinkError when the kernel does not remove the link; the addresses then stay reserved
 */
export function del(
  node: PluginMachine,
  configuration: DetachConfiguration,
  attachment: Attachment,
  home: NetworkNamespace,
  namespace: NetworkNamespace | undefined,
): void {
  const { runDir, name } = configuration;
  const record = readAttachment(runDir, name, attachment, node.files);
  const { policyd } = configuration;
  const { containerId, ifname } = attachment;
  const unregistration = policyd && unregister(node, policyd, { network: name, containerId, ifname });
  const isOtherNetworks = record === undefined && isOfOtherNetwork(node, configuration, attachment);
  const removal = isOtherNetworks ? undefined : removeWiring(node, configuration, attachment, record, unregistration);

  const isOthersWork = removal?.wasThere === false && record === undefined;
  // A daemon that did not know the pod has not forgotten its flows either.
  const forgetsFlows = policyd !== undefined && unregistration !== "detached";
  const early = (held: readonly Address[]): void => {
    if (isOthersWork && namespace !== undefined) deletePodInterface(node, home, namespace, ifname);
    // Now, while only this pod has the addresses: what was in force for it must not let the next pod through (POD-20).
    if (forgetsFlows) node.nodeRules().forgetAddresses(node, held);
  };
  const { bridge = configuration.bridge, dataDir = configuration.ipam.dataDir } = record ?? {};
  releaseAddresses(openStore(node, name, dataDir), attachment, record, {
    // This may list all flows of the node and take seconds, in which other pods need the store.
    ...(isOthersWork || forgetsFlows ? { early } : {}),
    last: (held) => {
      forgetNeighbours(removal, held);
      if (dataDir === delegatedDirectory(runDir)) forgetHostRoutes(node, bridge, held);
    },
  });
  removeAttachment(runDir, name, attachment, node.files);
}

/** Releases the addresses: those of the record, or all that the attachment holds. */
function releaseAddresses(
  store: AddressStore,
  attachment: Attachment,
  record: AttachmentRecord | undefined,
  steps: ReleaseSteps,
): void {
  if (record === undefined) store.release(attachment, steps);
  else store.releaseAddresses(attachment, addressesOf(record), steps);
}

function addressesOf({ addresses }: AttachmentRecord): readonly Address[] {
  return addresses.map(({ address }) => address);
}

/**
 * Whether another network of this boot has the interface. An ADD refused for this reason is followed by a DEL, and
 * everything derived from only container and interface, such as the link's name, then belongs to the other network.
 */
function isOfOtherNetwork(node: PluginMachine, { runDir, name }: DetachConfiguration, attachment: Attachment): boolean {
  const others = recordsOfOtherNetworks(runDir, name, attachment, node.files);
  return others.some(({ bootId }) => bootId === node.bootId());
}

/**
 * Removes the link, its delay device, and the pod's elements in the node's tables.
 *
 * @returns what was found of the link; undefined if the daemon has removed it
 * @throws NetlinkError when the kernel does not remove the link
 */
function removeWiring(
  node: PluginMachine,
  configuration: DetachConfiguration,
  attachment: Attachment,
  record: AttachmentRecord | undefined,
  unregistration: Unregistration | undefined,
): LinkRemoval | undefined {
  const hostInterface = hostInterfaceName(node.sha256, attachment.containerId, attachment.ifname);
  // The removal is not repeated after the daemon: by now the next pods' removals hold the kernel's lock for links.
  const removal =
    unregistration === "detached" ? undefined : removeLink(node, hostInterface, record?.bridge ?? configuration.bridge);
  if (mayBeDelayed(record))
    forgetDevice(removal?.socket ?? openRouteSocket(node.syscalls), delayDeviceOf(attachment, node.sha256));
  withdrawRules(node, configuration, hostInterface, record);
  return removal;
}

/** The result of a request to remove a pod's link. */
interface LinkRemoval {
  readonly socket: NetlinkSocket;
  readonly wasThere: boolean;
  /** Undefined if the bridge is gone. */
  readonly bridgeIndex: number | undefined;
}

/** @throws NetlinkError when the kernel does not remove the link */
function removeLink(node: PluginMachine, hostInterface: string, bridge: string): LinkRemoval {
  const socket = openRouteSocket(node.syscalls);
  const [deleted, found] = socket.batch([deleteLink({ name: hostInterface }), getLink({ name: bridge })]);
  if (deleted?.error !== undefined && deleted.error.errnoName !== "ENODEV") throw deleted.error;
  const [message] = found?.messages ?? [];
  const bridgeIndex = message === undefined ? undefined : parseLink(message).index;
  return { socket, wasThere: deleted?.error === undefined, bridgeIndex };
}

/** Removes a pod's elements from the plugin's own tables; does nothing if the daemon keeps the pod's rules. */
function withdrawRules(
  node: PluginMachine,
  { runDir, policyd }: DetachConfiguration,
  hostInterface: string,
  record: AttachmentRecord | undefined,
): void {
  if (record === undefined) {
    if (policyd === undefined) node.nodeRules().withdraw(node, runDir, hostInterface, undefined);
  } else if (record.policyd === undefined && asksForNodeRules(record)) {
    // Also when the configuration names a daemon by now: the daemon does not have this pod's rules.
    node.nodeRules().withdraw(node, runDir, hostInterface, { ...record, addresses: addressesOf(record) });
  }
}

/**
 * Removes the interface of a pod that another plugin wired before a migration: such a pod has a reservation, but no
 * host end of our name and no record. Without a reservation the interface does not belong to this attachment and stays:
 * an ADD that was refused because of it is followed by a DEL, too.
 */
function deletePodInterface(
  node: PluginMachine,
  home: NetworkNamespace,
  namespace: NetworkNamespace,
  ifname: string,
): void {
  const socket = insideNamespace(node.syscalls, home, namespace, () => openRouteSocket(node.syscalls));
  const [reply] = socket.batch([deleteLink({ name: ifname })]);
  if (reply?.error !== undefined && reply.error.errnoName !== "ENODEV") throw reply.error;
}

/**
 * Removes the neighbours: permanent entries stay on the bridge when the pod's link goes. ENOENT means there was none.
 */
function forgetNeighbours(removal: LinkRemoval | undefined, addresses: readonly Address[]): void {
  if (removal?.bridgeIndex === undefined) return;
  const { socket, bridgeIndex } = removal;
  for (const { error } of socket.batch(addresses.map((address) => deleteNeighbour(bridgeIndex, address)))) {
    if (error !== undefined && error.errnoName !== "ENOENT") throw error;
  }
}

/** Removes the routes that addresses of an external IPAM plugin may have. ESRCH means there was none. */
function forgetHostRoutes(node: PluginMachine, bridge: string, addresses: readonly Address[]): void {
  const socket = openRouteSocket(node.syscalls);
  const link = findLink(socket, { name: bridge });
  if (link === undefined) return;
  const routes = addresses.map((address) => deleteRoute(hostRoute(hostCidr(address), link.index)));
  for (const { error } of socket.batch(routes)) if (error !== undefined && error.errnoName !== "ESRCH") throw error;
}
