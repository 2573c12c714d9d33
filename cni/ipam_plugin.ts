import { DrawbridgeError } from "../kernel/error.ts";
import { type NetworkConfiguration, networkConfiguration } from "./configuration/configuration.ts";
import { type ReleaseConfiguration, releaseConfiguration } from "./configuration/detach_configuration.ts";
import { dnsOf } from "./configuration/dns.ts";
import type { DecodedCall } from "./decoded_call.ts";
import type { Attachment } from "./environment.ts";
import { type PluginMachine, openStore } from "./host.ts";
import { formatJson } from "./json.ts";
import { type AddResult, resultObject } from "./result.ts";

/**
 * Carries out a verb as an IPAM plugin for other interface plugins. STATUS always succeeds, even when no address is free.
 *
 * @returns the text for standard output
 * @throws DrawbridgeError, CniError
 */
export function serveOthers(node: PluginMachine, decoded: DecodedCall): string {
  const { input } = decoded;
  switch (decoded.verb) {
    case "ADD": {
      const configuration = networkConfiguration(decoded.input, decoded.attachment.arguments);
      return formatJson(resultObject(allocateForOthers(node, configuration, decoded.attachment), input.cniVersion));
    }
    case "CHECK":
      checkForOthers(node, releaseConfiguration(input), decoded.attachment);
      return "";
    case "DEL": {
      // It releases whatever the container's interface holds, which may be nothing.
      const { name, ipam } = releaseConfiguration(input);
      openStore(node, name, ipam.dataDir).release(decoded.attachment);
      return "";
    }
    case "GC":
      if (decoded.isValid !== undefined)
        node.rare().collectReservations(node, releaseConfiguration(input), decoded.isValid);
      return "";
    case "STATUS":
      return "";
  }
}

/**
 * Allocates a container's addresses, and returns them with their subnet's prefix length and without an interface. Since
 * there is no attachment record, only the store itself can tell that a container already holds an address.
 *
 * @throws DrawbridgeError in host-local's words
 */
function allocateForOthers(
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

/**
 * Checks a container's reservations, with host-local's messages.
 *
 * @throws DrawbridgeError ERR_ADDRESS_UNAVAILABLE when nothing is reserved for the container's interface
 */
function checkForOthers(node: PluginMachine, { name, ipam }: ReleaseConfiguration, attachment: Attachment): void {
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
