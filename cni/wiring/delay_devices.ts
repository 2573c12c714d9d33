import { delayDeviceMac, delayDeviceName, type Sha256 } from "../../attachment/names_and_macs.ts";
import type { Owner } from "../../ipam/owner.ts";
import type { NetlinkSocket } from "../../kernel/netlink/socket.ts";
import { findLink } from "../../kernel/route/socket.ts";
import { type DelayDevice, removeDelayDevice } from "../../kernel/traffic_control/delay_device.ts";

/** Returns the delay device of an attachment, whether or not the attachment has one. */
export function delayDeviceOf(owner: Owner, sha256: Sha256): DelayDevice {
  const name = delayDeviceName(sha256, owner.containerId, owner.ifname);
  return { name, mac: delayDeviceMac(sha256, name) };
}

/** Removes a delay device if it exists; another link of its name stays. @throws NetlinkError when the kernel refuses */
export function forgetDevice(socket: NetlinkSocket, device: DelayDevice): void {
  removeDelayDevice(socket, findLink(socket, { name: device.name }), device);
}
