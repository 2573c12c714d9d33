import type { MacAddress } from "../ip/mac.ts";
import type { NetlinkSocket } from "../netlink/socket.ts";
import { type Request, request } from "../netlink/message.ts";
import { create, deleteLink, type Link } from "../route/link.ts";
import { findLink } from "../route/socket.ts";

const KIND = "ifb";

/** A device that returns the frames given to it when its queueing discipline releases them (drivers/net/ifb.c). */
export interface DelayDevice {
  readonly name: string;
  /** Distinguishes the device from one that another program has given this name. */
  readonly mac: MacAddress;
}

/**
 * Returns the request to make such a device, down; EEXIST when the name is taken.
 *
 * A returned frame continues at the link that received it, after that link's classifiers and after the ingress hook of
 * netfilter's netdev family (__netif_receive_skb_core, skip_classify), which therefore never sees it: rules about such
 * a link belong in the bridge family or the IP hooks.
 *
 * @param mtu the MTU, in bytes, of the links whose frames it receives
 */
export function createDelayDevice(device: DelayDevice, mtu: number): Request {
  return request(
    `create ifb ${device.name}`,
    { ...create, needs: "ifb" },
    {},
    { mac: device.mac, name: device.name, mtu, linkInfo: { kind: KIND } },
  );
}

/** Tells whether a link with the device's name is this device, by the kind and the MAC address it was made with. */
export function isDelayDevice(link: Link, device: DelayDevice): boolean {
  return link.name === device.name && link.kind === KIND && link.mac === device.mac;
}

/**
 * Removes the device if it exists, by index, so that a link that takes the name meanwhile stays. Another link of its
 * name stays, too.
 *
 * @throws NetlinkError when the kernel refuses
 */
export function removeDelayDevice(socket: NetlinkSocket, device: DelayDevice): void {
  const link = findLink(socket, { name: device.name });
  if (link === undefined || !isDelayDevice(link, device)) return;
  const [reply] = socket.batch([deleteLink({ index: link.index })]);
  if (reply?.error !== undefined && reply.error.errnoName !== "ENODEV") throw reply.error;
}
