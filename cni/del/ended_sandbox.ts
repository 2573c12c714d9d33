import type { AttachmentRecord } from "../../attachment/attachment.ts";
import {
  listAttachmentNames,
  listAttachments,
  readAttachment,
  recordedNetworks,
} from "../../attachment/attachment_reader.ts";
import { markEnded } from "../../attachment/ended.ts";
import type { Owner } from "../../ipam/owner.ts";
import type { DetachConfiguration } from "../configuration/detach_configuration.ts";
import { delegatedDirectory } from "../delegation/ipam_choice.ts";
import type { Attachment } from "../environment.ts";
import { attempt } from "../../kernel/error.ts";
import type { NetworkNamespace } from "../../kernel/network_namespace.ts";
import type { Address } from "../../kernel/ip/address.ts";
import { ClaimIndex } from "../../attachment/claim_index.ts";
import { hasEnded, type HasLink, linksOf } from "../gc/proof.ts";
import { claimsOfRecord } from "../../attachment/host_port_claim.ts";
import { hostInterfaceName } from "../../attachment/names_and_macs.ts";
import type { PluginMachine } from "../host.ts";
import { uptime } from "../status/failure_record.ts";

/** A sandbox, by its container and its pod. */
export type Sandbox = Pick<AttachmentRecord, "containerId" | "pod">;

/** Whether two sandboxes belong to Pods of one name: only one of these exists, and it has at most one sandbox. */
export function areOfOneName(one: Sandbox, other: Sandbox): boolean {
  if (one.pod === undefined || other.pod === undefined || one.containerId === other.containerId) return false;
  return one.pod.namespace === other.pod.namespace && one.pod.name === other.pod.name;
}

/**
 * Whether a sandbox is an earlier one of the Pod that a new one is made for. The kubelet makes a second sandbox only
 * after it has given up the first, whether or not the first one's link still exists.
 */
export function isEarlierSandbox(holder: Sandbox, taker: Sandbox): boolean {
  const uid = holder.pod?.uid;
  return areOfOneName(holder, taker) && uid !== undefined && uid !== "" && uid === taker.pod?.uid;
}

/**
 * Whether a sandbox gives its host ports and addresses to another one that wants them: because it is an earlier one of
 * the same Pod, or because it has ended without DEL. The proof of the latter is its namespace ({@link hasEnded}), or that
 * its link is gone while another Pod has its Pod's name. An ADD in progress still has its namespace.
 */
export function givesWay(node: PluginMachine, holder: AttachmentRecord, taker: Sandbox, hasLink: HasLink): boolean {
  if (isEarlierSandbox(holder, taker)) return true;
  if (areOfOneName(holder, taker) && !hasLink(holder.hostInterface)) return true;
  return hasEnded(node, holder, hasLink);
}

/**
 * Returns a function that says whether the host ports of a host end, given by its name, are free for a new sandbox. A
 * host end with neither record nor link is free: an ADD writes its record before its ports. Records are read only when
 * the function is called, which is when a port is held.
 */
export function freeOwners(node: PluginMachine, runDir: string, taker: Sandbox): (owner: string) => boolean {
  const hasLink = linksOf(node);
  const known = new Map<string, boolean>();
  const judge = (owner: string): boolean => {
    for (const network of recordedNetworks(runDir, node.files)) {
      for (const name of listAttachmentNames(runDir, network, node.files)) {
        if (hostInterfaceName(node.sha256, name.containerId, name.ifname) !== owner) continue;
        const holder = readAttachment(runDir, network, name, node.files);
        if (holder === undefined || !givesWay(node, holder, taker, hasLink)) return false;
        noteEnded(node, runDir, holder);
        return true;
      }
    }
    return !hasLink(owner);
  };
  return (owner) => {
    const isFree = known.get(owner) ?? judge(owner);
    known.set(owner, isFree);
    return isFree;
  };
}

/**
 * Returns the records of sandboxes that hold host ports of a new one and give way to it. @throws DrawbridgeError when
 * the kernel does not answer
 */
export function givingWay(node: PluginMachine, runDir: string, taker: AttachmentRecord): readonly AttachmentRecord[] {
  const claims = new ClaimIndex<AttachmentRecord>();
  for (const claim of claimsOfRecord(taker)) claims.addClaim(claim, taker);
  const hasLink = linksOf(node);
  return allRecords(node, runDir).filter(
    (holder) =>
      (holder.containerId !== taker.containerId || holder.ifname !== taker.ifname) &&
      claimsOfRecord(holder).some((claim) => claims.find(claim) !== undefined) &&
      givesWay(node, holder, taker, hasLink),
  );
}

function allRecords(node: PluginMachine, runDir: string): readonly AttachmentRecord[] {
  return recordedNetworks(runDir, node.files).flatMap((name) => listAttachments(runDir, name, node.files).records);
}

/** Returns the addresses of the pods that have a record, in all networks. */
export function recordedAddresses(node: PluginMachine, runDir: string): ReadonlySet<Address> {
  return new Set(allRecords(node, runDir).flatMap(({ addresses }) => addresses.map(({ address }) => address)));
}

/**
 * Detaches the sandboxes of all networks that hold an address of a new sandbox, have no link any more and give way to
 * the new one.
 *
 * An IPAM plugin of others that gives such an address again has released it before. Its DEL, which frees what else it
 * holds for the ended sandbox, is called by an ADD a quarter of an hour later.
 *
 * @returns whether any was detached
 * @throws what the DEL of a sandbox throws
 */
export function detachHolders(
  node: PluginMachine,
  configuration: DetachConfiguration,
  wanted: readonly Address[],
  taker: Attachment,
  home: NetworkNamespace,
): boolean {
  const { runDir } = configuration;
  const { pod } = taker.arguments;
  const sandbox = { containerId: taker.containerId, ...(pod === undefined ? {} : { pod }) };
  const hasLink = linksOf(node);
  const holders = allRecords(node, runDir).filter(
    (holder) =>
      holder.addresses.some(({ address }) => wanted.includes(address)) &&
      !hasLink(holder.hostInterface) &&
      givesWay(node, holder, sandbox, hasLink),
  );
  for (const { network, containerId, ifname, dataDir } of holders) {
    const ended = { ...taker, containerId, ifname };
    node.deleting().del(node, { ...configuration, name: network }, ended, { home, namespace: undefined });
    if (dataDir === delegatedDirectory(runDir)) noteEnded(node, runDir, { network, containerId, ifname });
  }
  return holders.length > 0;
}

/** Marks an attachment as ended. If that fails, its remains only stay longer. */
export function noteEnded(
  node: PluginMachine,
  runDir: string,
  record: Owner & Pick<AttachmentRecord, "network">,
): void {
  const seconds = uptime(node);
  if (seconds === undefined) return;
  attempt<unknown>(
    () => markEnded(runDir, record.network, record, { bootId: node.bootId(), seconds }, node.files),
    () => {},
  );
}
