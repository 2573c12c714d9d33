import type { MacAddress } from "../ip/mac.ts";
import type { NetlinkSocket } from "../netlink/socket.ts";
import type { Request } from "../netlink/message.ts";
import { request } from "../netlink/message.ts";
import type { Link } from "../route/link.ts";
import { create, deleteLink } from "../route/link.ts";

const KIND = "ifb";

/** A device that hands back what it is given to send, once its queueing discipline lets it (drivers/net/ifb.c). */
export interface DelayDevice {
  readonly name: string;
  /** Tells the device from one that somebody else has given this name. */
  readonly mac: MacAddress;
}

/**
 * Makes such a device, down; EEXIST when the name is taken.
 *
 * What it hands back goes on at the link that received it, behind that link's classifiers and behind the ingress hook of
 * netfilter's netdev family (__netif_receive_skb_core, skip_classify), which so never sees it: rules about such a link
 * belong to the bridge family or the IP hooks.
 *
 * @param mtu bytes; that of the links whose frames it is given
 */
export function createDelayDevice(device: DelayDevice, mtu: number): Request {
  return request(
    `create ifb ${device.name} (kernel option IFB)`,
    create,
    {},
    { mac: device.mac, name: device.name, mtu, linkInfo: { kind: KIND } },
  );
}

/** Whether a link of the device's name is this device, by the kind and the MAC address it was made with. */
export function isDelayDevice(link: Link, device: DelayDevice): boolean {
  return link.name === device.name && link.kind === KIND && link.mac === device.mac;
}

/**
 * Removes the device. By its index, so that a link which takes the name meanwhile stays; one that is gone is no error.
 *
 * @param link what has the device's name, if anything; it stays when it is not the device
 * @throws NetlinkError when the kernel refuses
 */
export function removeDelayDevice(socket: NetlinkSocket, link: Link | undefined, device: DelayDevice): void {
  if (link === undefined || !isDelayDevice(link, device)) return;
  const [reply] = socket.batch([deleteLink({ index: link.index })]);
  if (reply?.error !== undefined && reply.error.errnoName !== "ENODEV") throw reply.error;
}
