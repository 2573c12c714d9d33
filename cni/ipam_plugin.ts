import type { NetworkConfiguration } from "./configuration.ts";
import type { ReleaseConfiguration } from "./detach_configuration.ts";
import { dnsOf } from "./dns.ts";
import type { Attachment } from "./environment.ts";
import type { Node } from "./node.ts";
import { openStore } from "./node.ts";
import type { AddResult } from "./result.ts";

/**
 * ADD as an IPAM plugin, for the interface plugins of others: addresses with their subnet's prefix length, no
 * interface. With no record of ours, only the store itself can tell that a container already holds an address.
 *
 * @throws DrawbridgeError in host-local's words
 */
export function allocateForOthers(node: Node, configuration: NetworkConfiguration, attachment: Attachment): AddResult {
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

/** DEL as an IPAM plugin: gives back whatever the container's interface holds; nothing is fine too. */
export function releaseForOthers(node: Node, configuration: ReleaseConfiguration, attachment: Attachment): void {
  openStore(node, configuration.name, configuration.ipam.dataDir).release(attachment);
}
