import type { AttachmentRecord } from "../../attachment/attachment.ts";
import { readAttachment, recordsOfOtherNetworks } from "../../attachment/attachment_reader.ts";
import { removeAttachment } from "../../attachment/attachment_writer.ts";
import { hostInterfaceName } from "../../attachment/names_and_macs.ts";
import { asksForNodeRules } from "../../attachment/node_rules_need.ts";
import type { AddressStore, ReleaseSteps } from "../../ipam/store.ts";
import type { Address } from "../../kernel/ip/address.ts";
import type { DetachConfiguration } from "../configuration/detach_configuration.ts";
import { delegatedDirectory } from "../delegation/ipam_choice.ts";
import type { Attachment } from "../environment.ts";
import { openStore, type PluginMachine } from "../host.ts";
import type { NamespacesLeft } from "../pod_lock.ts";
import type { Unregistration } from "../registration.ts";
import type { LinkRemoval } from "./wiring_removal.ts";

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
 * @throws NetlinkError when the kernel does not remove the link; the addresses then stay reserved
 */
export function del(
  node: PluginMachine,
  configuration: DetachConfiguration,
  attachment: Attachment,
  { home, namespace }: NamespacesLeft,
): void {
  const { runDir, name, policyd } = configuration;
  const record = readAttachment(runDir, name, attachment, node.files);
  const { containerId, ifname } = attachment;
  const unregistration =
    policyd && node.registering().unregister(node, policyd, { network: name, containerId, ifname });
  const isOtherNetworks = record === undefined && isOfOtherNetwork(node, configuration, attachment);
  const removal = isOtherNetworks ? undefined : removeWiring(node, configuration, attachment, record, unregistration);

  const isOthersWork = removal?.wasThere === false && record === undefined;
  // A daemon that did not know the pod has not forgotten its flows either.
  const forgetsFlows = policyd !== undefined && unregistration !== "detached";
  const early = (held: readonly Address[]): void => {
    if (isOthersWork && namespace !== undefined) node.unwiring().deletePodInterface(node, home, namespace, ifname);
    // Now, while only this pod has the addresses: what was in force for it must not let the next pod through (POD-20).
    if (forgetsFlows) node.nodeRules().forgetAddresses(node, held);
  };
  const { bridge = configuration.bridge, dataDir = configuration.ipam.dataDir } = record ?? {};
  releaseAddresses(openStore(node, name, dataDir), attachment, record, {
    // This may list all flows of the node and take seconds, in which other pods need the store.
    ...(isOthersWork || forgetsFlows ? { early } : {}),
    last: (held) => {
      if (removal !== undefined) node.unwiring().forgetNeighbours(removal, held);
      if (dataDir === delegatedDirectory(runDir)) node.unwiring().forgetHostRoutes(node, bridge, held);
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
    unregistration === "detached"
      ? undefined
      : node.unwiring().removeLink(node, hostInterface, record?.bridge ?? configuration.bridge);
  if (mayBeDelayed(record)) node.unwiring().forgetDelayDevice(node, removal, attachment);
  withdrawRules(node, configuration, hostInterface, record);
  return removal;
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

/** Whether an attachment may have a delay device. The record says so; without a record it may. */
function mayBeDelayed(record: AttachmentRecord | undefined): boolean {
  return record === undefined || (record.bandwidth?.egressRate ?? 0) > 0;
}
