import { type Address, familyOf, formatAddress } from "../ip/address.ts";
import type { MacAddress } from "../ip/mac.ts";
import { address, type AttributeTable, be16, bytes, flag, nested, string, u32, u8 } from "../netlink/attribute.ts";
import { decodeAttributes } from "../netlink/attribute_decoder.ts";
import {
  attributeBytes,
  type BodyLayout,
  decodeBody,
  type ReceivedMessage,
  type Request,
  request,
} from "../netlink/message.ts";
import { create } from "./link.ts";

/** IFLA_VXLAN_* (include/uapi/linux/if_link.h). */
const vxlanAttributes = {
  vni: [1, u32],
  group: [2, bytes],
  link: [3, u32],
  local: [4, address],
  learning: [7, u8],
  port: [15, be16],
  group6: [16, bytes],
  local6: [17, address],
  checksum: [18, u8],
  collectMetadata: [25, u8],
  groupPolicy: [23, flag],
} as const satisfies AttributeTable;

/** The part of RTM_NEWLINK that identifies the device of a tunnel. */
const layout = {
  struct: { family: "u8", pad: "u8", type: "u16", index: "i32", flags: "u32", change: "u32" },
  attributes: { linkInfo: [18, nested({ kind: [1, string], data: [2, bytes] } as const)] },
} as const satisfies BodyLayout;

/** The parameters that must agree in two VXLAN devices that exchange packets, and the local address. */
export interface VxlanParameters {
  readonly vni: number;
  /** The UDP port to which it sends and on which it listens. */
  readonly port: number;
  /** The source address of outer packets; undefined lets the kernel choose. */
  readonly local: Address | undefined;
  /** Whether it learns the locations of MAC addresses from packets. */
  readonly learning: boolean;
  /** Whether it has its own remote, an underlying device, policies or external metadata, none of which we use. */
  readonly hasMore: boolean;
  /** Whether it has policies or external metadata: its socket, and so its port, is then not shared with a device of ours. */
  readonly hasOwnSocket: boolean;
}

/** A VXLAN device to create. */
export interface VxlanDevice {
  readonly name: string;
  readonly mac: MacAddress;
  /** In bytes; undefined for the kernel's default. */
  readonly mtu: number | undefined;
  readonly vni: number;
  readonly port: number;
  readonly local: Address;
}

/**
 * Returns the request to create a VXLAN device, down. It sends only as its forwarding database says, and never learns.
 *
 * It has no underlying device: outer packets follow the node's routes.
 */
export function createVxlan({ name, mac, mtu, vni, port, local }: VxlanDevice): Request {
  const data = attributeBytes(vxlanAttributes, {
    vni,
    ...(familyOf(local) === 4 ? { local } : { local6: local }),
    learning: 0,
    port,
  });
  return request(
    `create VXLAN device ${name} from ${formatAddress(local)}`,
    { ...create, needs: "vxlan" },
    {},
    { mac, name, mtu, linkInfo: { kind: "vxlan", data } },
  );
}

/**
 * Returns the parameters of the VXLAN device in a RTM_NEWLINK message; undefined for a link of any other kind.
 *
 * @throws DrawbridgeError ERR_NETLINK_MALFORMED for a malformed message
 */
export function parseVxlan(message: ReceivedMessage): VxlanParameters | undefined {
  const { kind, data } = decodeBody(layout, message.body).attributes.linkInfo ?? {};
  if (kind !== "vxlan" || data === undefined) return undefined;
  const values = decodeAttributes(vxlanAttributes, data);
  const hasRemote = values.group !== undefined || values.group6 !== undefined;
  const hasOwnSocket = values.collectMetadata === 1 || values.groupPolicy !== undefined;
  return {
    vni: values.vni ?? 0,
    port: values.port ?? 0,
    local: values.local ?? values.local6,
    learning: values.learning === 1,
    hasMore: hasRemote || (values.link ?? 0) !== 0 || hasOwnSocket,
    hasOwnSocket,
  };
}

/** IFLA_VXLAN_PORT, IFLA_GENEVE_PORT and IFLA_BAREUDP_PORT (include/uapi/linux/if_link.h), by the kind of link. */
const PORT_ATTRIBUTES: Readonly<Record<string, number>> = { vxlan: 15, geneve: 5, bareudp: 1 };

/**
 * Returns the UDP port on which a tunnel's link listens, from its RTM_*LINK message; undefined for every other link.
 *
 * @throws DrawbridgeError ERR_NETLINK_MALFORMED for a malformed message
 */
export function tunnelPortOf(message: ReceivedMessage): number | undefined {
  const { kind = "", data } = decodeBody(layout, message.body).attributes.linkInfo ?? {};
  const attribute = PORT_ATTRIBUTES[kind];
  if (attribute === undefined || data === undefined) return undefined;
  return decodeAttributes({ port: [attribute, be16] } as const, data).port;
}
