import type { Owner } from "../ipam/owner.ts";
import { type Address, addressToBytes } from "../kernel/ip/address.ts";
import { type MacAddress, macFromBytes } from "../kernel/ip/mac.ts";
import type { DelayDevice } from "../kernel/traffic_control/delay_device.ts";

/** SHA-256 of a text, in lower-case hexadecimal. */
export type Sha256 = (text: string) => string;

/** The prefix of the names of the host ends of pods' veth pairs. */
export const HOST_INTERFACE_PREFIX = "dbv";
const DELAY_DEVICE_PREFIX = "dbi";

/**
 * Returns the name of the host end of an attachment's veth pair: `dbv` and 12 hexadecimal characters.
 *
 * It always has 15 characters of [a-z0-9], the longest name the kernel takes (IFNAMSIZ 16 with its NUL). Only container
 * and interface determine it, so DEL needs no record to find it. 48 bits of SHA-256 keep the attachments of a node
 * apart, and ":" cannot occur in either part, so no two pairs share a text.
 */
export function hostInterfaceName(sha256: Sha256, containerId: string, ifname: string): string {
  return `${HOST_INTERFACE_PREFIX}${sha256(`${containerId}:${ifname}`).slice(0, 12)}`;
}

/** Returns the name that people know an attachment by: its pod, or else its container. */
export function displayName({
  pod,
  containerId,
}: {
  readonly pod?: { readonly namespace: string; readonly name: string } | undefined;
  readonly containerId: string;
}): string {
  return pod === undefined ? containerId : `${pod.namespace}/${pod.name}`;
}

/** Returns the alias of the link with that display name. The kernel takes 255 bytes including the NUL (IFALIASZ). */
export function linkAlias(name: string): string {
  // All characters of pods' and containers' names are ASCII.
  return name.slice(0, 254);
}

/**
 * Returns the MAC address of the pod's end: 0a:58 and the IPv4 address; for a pod without one, 0e and a hash of the
 * IPv6 address.
 *
 * An address and its MAC always go together, so a neighbour entry learned for an earlier pod is right for the next.
 */
export function podMac(sha256: Sha256, address: Address): MacAddress {
  if (typeof address !== "number") return locallyAdministered(0x0e, sha256(`pod:${address}`));
  const bytes = Uint8Array.of(0x0a, 0x58, 0, 0, 0, 0);
  bytes.set(addressToBytes(address), 2);
  return macFromBytes(bytes);
}

/** Returns the MAC address of the host end: derived from the interface's name, and never a pod's (ae, not 0a or 0e). */
export function hostMac(sha256: Sha256, hostInterface: string): MacAddress {
  return locallyAdministered(0xae, sha256(`host:${hostInterface}`));
}

/**
 * Returns the name of the device that delays what an attachment's pod sends: `dbi` and the hash that {@link
 * hostInterfaceName} uses for the same pair, so that DEL finds this device without a record, too.
 */
export function delayDeviceName(sha256: Sha256, containerId: string, ifname: string): string {
  return delayDeviceOfPort(hostInterfaceName(sha256, containerId, ifname));
}

/** Returns the name of the device that delays what the pod with this host end sends. */
export function delayDeviceOfPort(hostInterface: string): string {
  return hostInterface.replace(HOST_INTERFACE_PREFIX, DELAY_DEVICE_PREFIX);
}

/** Returns the name of the host end whose pod's packets a device of this name delays. */
export function portOfDelayDevice(name: string): string {
  return name.replace(DELAY_DEVICE_PREFIX, HOST_INTERFACE_PREFIX);
}

/**
 * Returns the MAC address of that device: derived from its name, with a prefix (be) that nothing else of ours has. No
 * frame carries it. The kernel gets it in the message that makes the device, so a device with this name and MAC address
 * is ours at any moment.
 */
export function delayDeviceMac(sha256: Sha256, name: string): MacAddress {
  return locallyAdministered(0xbe, sha256(`delay:${name}`));
}

/** Returns the delay device of an attachment, whether or not the attachment has one. */
export function delayDeviceOf(sha256: Sha256, { containerId, ifname }: Owner): DelayDevice {
  const name = delayDeviceName(sha256, containerId, ifname);
  return { name, mac: delayDeviceMac(sha256, name) };
}

/**
 * Returns the MAC address of a bridge. Its name and first gateway address determine it, so that it survives reboots; no
 * veth has its prefix (ce), so that no port can share it.
 */
export function bridgeMac(sha256: Sha256, bridge: string, gateway: string): MacAddress {
  return locallyAdministered(0xce, sha256(`bridge:${bridge}:${gateway}`));
}

/** Returns six bytes with the given first one, whose low bits must be 10: locally administered, unicast. */
function locallyAdministered(first: number, digest: string): MacAddress {
  const bytes = [first];
  for (let i = 0; i < 10; i += 2) bytes.push(Number.parseInt(digest.slice(i, i + 2), 16));
  return macFromBytes(new Uint8Array(bytes));
}
