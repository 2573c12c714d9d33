import type { AttachmentRecord } from "../attachment/attachment.ts";
import { DrawbridgeError } from "../kernel/error.ts";
import type { Address } from "../kernel/ip/address.ts";
import type { NetworkConfiguration } from "./configuration/configuration.ts";
import type { ReleaseConfiguration } from "./configuration/detach_configuration.ts";
import { dnsOf } from "./configuration/dns.ts";
import type { Attachment } from "./environment.ts";
import { type PluginMachine, openStore } from "./host.ts";
import type { AddResult } from "./result.ts";

/**
 * Carries out ADD as an IPAM plugin for other interface plugins: returns addresses with their subnet's prefix length,
 * and no interface. Since there is no attachment record, only the store itself can tell that a container already holds
 * an address.
 *
 * @throws DrawbridgeError in host-local's words
 */
export function allocateForOthers(
  node: PluginMachine,
  configuration: NetworkConfiguration,
  attachment: Attachment,
): AddResult {
  const dns = dnsOf(node, configuration);
  const { ranges, requested, routes } = configuration.ipam;
  const allocations = openStore(node, configuration.name, configuration.ipam.dataDir).allocate(
    ranges,
    attachment,
    requested,
    "scan",
  );
  return { interfaces: [], ips: allocations.map(({ address, gateway }) => ({ address, gateway })), routes, dns };
}

/** Carries out DEL as an IPAM plugin: releases whatever the container's interface holds, which may be nothing. */
export function releaseForOthers(
  node: PluginMachine,
  configuration: ReleaseConfiguration,
  attachment: Attachment,
): void {
  openStore(node, configuration.name, configuration.ipam.dataDir).release(attachment);
}

/** Returns the addresses of a record that are not reserved for it: the only question of CHECK to the network's IPAM. */
export function unheldAddresses(
  node: PluginMachine,
  { name }: ReleaseConfiguration,
  record: AttachmentRecord,
): readonly Address[] {
  const addresses = record.addresses.map(({ address }) => address);
  return openStore(node, name, record.dataDir).notHeld(record, addresses);
}

/**
 * Carries out CHECK as an IPAM plugin for other interface plugins, with host-local's messages.
 *
 * @throws DrawbridgeError ERR_ADDRESS_UNAVAILABLE when nothing is reserved for the container's interface
 */
export function checkForOthers(
  node: PluginMachine,
  { name, ipam }: ReleaseConfiguration,
  attachment: Attachment,
): void {
  const { containerId, ifname } = attachment;
  const isHeld = openStore(node, name, ipam.dataDir)
    .reservations()
    .some(
      (one) =>
        (one.kind === "owned" && one.owner.containerId === containerId && one.owner.ifname === ifname) ||
        (one.kind === "legacy" && one.containerId === containerId),
    );
  if (isHeld) return;
  throw new DrawbridgeError(
    "ERR_ADDRESS_UNAVAILABLE",
    `Failed to find address added by container ${containerId} for interface ${ifname}; call DEL and ADD`,
  );
}
