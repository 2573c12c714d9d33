import type { MacAddress } from "../ip/mac.ts";
import {
  type AttributeTable,
  type AttributeValues,
  bytes,
  i32,
  mac,
  nested,
  string,
  u16,
  u32,
  u8,
} from "../netlink/attribute.ts";
import { decodeAttributes } from "../netlink/attribute_decoder.ts";
import {
  attributeBytes,
  type BodyLayout,
  decodeBody,
  encodeAttributes,
  encodeStruct,
  MessageFlag,
  type ReceivedMessage,
  type Request,
  request,
} from "../netlink/message.ts";
import { Writer } from "../byte_writer.ts";

export const RTM_NEWLINK = 16;
export const RTM_DELLINK = 17;
const RTM_GETLINK = 18;

const AF_BRIDGE = 7;
const AF_INET6 = 10;

const IFF_UP = 0x1;
const IFF_NOARP = 0x80;
/** ARPHRD_ETHER (include/uapi/linux/if_arp.h). */
const ETHERNET = 1;
const IFF_LOWER_UP = 0x10000;

/** struct ifinfomsg (include/uapi/linux/rtnetlink.h). */
const linkHeader = { family: "u8", pad: "u8", type: "u16", index: "i32", flags: "u32", change: "u32" } as const;

/** IFLA_BRPORT_* (include/uapi/linux/if_link.h). */
const bridgePortAttributes = {
  state: [1, u8],
  hairpin: [4, u8],
  multicastRouter: [25, u8],
  groupForwardMask: [31, u16],
} as const satisfies AttributeTable;

/** IFLA_BR_*. */
const bridgeAttributes = { stpState: [5, u32] } as const satisfies AttributeTable;

/** IFLA_INFO_*; the tables of `data` and `slaveData` depend on `kind` and `slaveKind`. */
const linkInfoAttributes = {
  kind: [1, string],
  data: [2, bytes],
  slaveKind: [4, string],
  slaveData: [5, bytes],
} as const satisfies AttributeTable;

/** BR_STATE_FORWARDING: the bridge takes frames from the port, and sends frames to it (include/uapi/linux/if_bridge.h). */
export const FORWARDING = 3;

/** BR_NO_STP (net/bridge/br_private.h). */
const STP_OFF = 0;

const ADDRESS_GENERATION_NONE = 1;

/** IFLA_INET6_*. */
const inet6Attributes = { addressGeneration: [8, u8] } as const satisfies AttributeTable;

/** IFLA_AF_SPEC: one attribute per address family, numbered like the family. */
const familyAttributes = { inet6: [AF_INET6, nested(inet6Attributes)] } as const satisfies AttributeTable;

/** IFLA_*. */
const linkAttributes = {
  mac: [1, mac],
  name: [3, string],
  mtu: [4, u32],
  link: [5, i32],
  master: [10, u32],
  operationalState: [16, u8],
  linkInfo: [18, nested(linkInfoAttributes)],
  alias: [20, string],
  families: [26, nested(familyAttributes)],
  group: [27, u32],
  extensionMask: [29, u32],
  netnsFd: [28, u32],
  transmitQueues: [31, u32],
  receiveQueues: [32, u32],
} as const satisfies AttributeTable;

/** The attributes of RTM_*LINK messages to send. */
const linkLayout = { struct: linkHeader, attributes: linkAttributes } as const satisfies BodyLayout;

/** MAC addresses of tunnels and loopback do not have six bytes, so reading takes the raw payload. */
const readLayout = {
  struct: linkHeader,
  attributes: { ...linkAttributes, mac: [1, bytes], portInformation: [12, bytes], families: [26, bytes] },
} as const satisfies BodyLayout;

const identityLayout = {
  struct: linkHeader,
  attributes: { name: linkAttributes.name, link: linkAttributes.link },
} as const satisfies BodyLayout;

const stateLayout = {
  struct: linkHeader,
  attributes: { operationalState: linkAttributes.operationalState },
} as const satisfies BodyLayout;

const VETH_INFO_PEER = 1;
/**
 * The default number of queues of a veth, but set explicitly. Otherwise the kernel allocates one per processor and
 * frees the rest, which waits for an RCU grace period at each end (veth_init_queues of drivers/net/veth.c).
 */
const ONE_QUEUE = { transmitQueues: 1, receiveQueues: 1 } as const;
/** RTEXT_FILTER_SKIP_STATS: counters are half of an answer, and nothing here reads them. */
const SKIP_STATISTICS = 8;

/** IF_OPER_UP: the link carries packets. */
export const OPERATIONAL_STATE_UP = 6;
/** IF_OPER_UNKNOWN: the kernel has not had a reason to check (linkwatch). With a carrier the link carries packets. */
export const OPERATIONAL_STATE_UNKNOWN = 0;

/** The kind of a RTM_NEWLINK request that creates a link; EEXIST when its name is taken. */
export const create = { type: RTM_NEWLINK, flags: MessageFlag.CREATE | MessageFlag.EXCL, layout: linkLayout } as const;
const change = { type: RTM_NEWLINK, flags: 0, layout: linkLayout } as const;

/** A network interface as the kernel reports it. */
export interface Link {
  readonly index: number;
  readonly name: string;
  /** The driver ("veth", "bridge"); undefined for hardware and loopback. */
  readonly kind: string | undefined;
  readonly mac: MacAddress | undefined;
  readonly mtu: number;
  readonly up: boolean;
  readonly carrier: boolean;
  /** Whether it is Ethernet and resolves MAC addresses; WireGuard, tun, ppp and GRE know only inner addresses. */
  readonly hasLinkLayer: boolean;
  /** IF_OPER_*: 6 is up, 2 is down. */
  readonly operationalState: number;
  /** The index of the bridge whose port this is. */
  readonly master: number | undefined;
  /** The index of the veth peer, in its own namespace. */
  readonly peer: number | undefined;
  readonly alias: string | undefined;
  readonly bridge: { readonly stp: boolean } | undefined;
  readonly bridgePort:
    | {
        /** BR_STATE_*: 0 while the port carries no packets, 3 when it forwards. */
        readonly state: number;
        readonly hairpin: boolean;
        readonly groupForwardMask: number;
        readonly multicastRouter: number;
      }
    | undefined;
}

/** One end of a veth pair. */
export interface VethEnd {
  readonly name: string;
  readonly mac: MacAddress;
}

/** A veth pair: this end in the socket's namespace, the peer in that of `netnsFd`. */
export interface VethPair {
  readonly host: VethEnd;
  readonly peer: VethEnd & { readonly netnsFd: number };
  /** In bytes; 0 leaves the kernel's default of 1500. */
  readonly mtu: number;
  /** The index of the bridge that the host end joins. */
  readonly master: number;
}

/**
 * Returns the request to create a veth pair, both ends in their final namespaces under their final names.
 *
 * IFF_UP cannot be part of this message (the kernel answers ENOTCONN until the peer is linked).
 */
export function createVeth(pair: VethPair): Request {
  const mtu = pair.mtu === 0 ? undefined : pair.mtu;
  const peer = new Writer(128);
  encodeStruct(peer, linkHeader, {});
  encodeAttributes(peer, linkAttributes, {
    mac: pair.peer.mac,
    name: pair.peer.name,
    netnsFd: pair.peer.netnsFd,
    mtu,
    ...ONE_QUEUE,
  });
  const data = attributeBytes({ peer: [VETH_INFO_PEER, bytes] } as const, { peer: peer.view() });
  return request(
    `create veth ${pair.host.name} with peer ${pair.peer.name}`,
    { ...create, needs: "veth" },
    {},
    {
      mac: pair.host.mac,
      name: pair.host.name,
      master: pair.master,
      linkInfo: { kind: "veth", data },
      mtu,
      ...ONE_QUEUE,
    },
  );
}

/**
 * Returns the request to create a bridge with a MAC address of its own and STP off (POD-16), down.
 *
 * With an explicit MAC address the kernel never adopts the lowest port's (br_stp_change_bridge_id). The MTU is not part
 * of the request: only a later change makes one that does not vary with the ports (BROPT_MTU_SET_BY_USER).
 */
export function createBridge(bridge: { readonly name: string; readonly mac: MacAddress }): Request {
  return request(
    `create bridge ${bridge.name}`,
    { ...create, needs: "bridge" },
    {},
    {
      mac: bridge.mac,
      name: bridge.name,
      linkInfo: { kind: "bridge", data: attributeBytes(bridgeAttributes, { stpState: 0 }) },
    },
  );
}

/** A change of an existing link. Omitted fields stay as they are. */
export interface LinkChange {
  readonly up?: boolean;
  readonly mtu?: number;
  readonly mac?: MacAddress;
  readonly alias?: string;
  readonly group?: number;
  /**
   * False stops the kernel from generating an IPv6 link-local address. Together with `up` it takes effect only while
   * the link has no carrier, because the kernel sets flags before address generation (do_setlink).
   */
  readonly linkLocalAddress?: false;
  /** The index of the bridge that it joins. */
  readonly master?: number;
  /** For a bridge: false turns the spanning tree protocol off. */
  readonly stp?: false;
  readonly bridgePort?: {
    readonly hairpin: boolean;
    /** Bit n: frames to 01:80:c2:00:00:0n received here are treated like all others (IEEE 802.1D, table 7-10). */
    readonly groupForwardMask?: number;
    /** MDB_RTR_TYPE_*: 0 means that the port never leads to a multicast router; 1, the default, learns it. */
    readonly multicastRouter?: number;
    /** BR_STATE_*. The kernel refuses a change with EBUSY under its own STP, and with ENETDOWN without a carrier. */
    readonly state?: number;
  };
}

/** A reference to a link by index, or by name where the index is unknown. */
export type LinkReference = { readonly index: number } | { readonly name: string };

/** Returns the request to change an existing link in one message. */
export function changeLink(link: LinkReference, to: LinkChange): Request {
  return request(
    `change link ${describe(link)}`,
    change,
    { index: indexOf(link), flags: to.up === true ? IFF_UP : 0, change: to.up === undefined ? 0 : IFF_UP },
    {
      name: nameOf(link),
      mac: to.mac,
      mtu: to.mtu,
      alias: to.alias,
      group: to.group,
      master: to.master,
      families:
        to.linkLocalAddress === undefined ? undefined : { inet6: { addressGeneration: ADDRESS_GENERATION_NONE } },
      linkInfo: infoOf(to),
    },
  );
}

/** Returns the part of a change for a bridge or its port; a message has room for only one of the two. */
function infoOf({ bridgePort, stp }: LinkChange): AttributeValues<typeof linkInfoAttributes> | undefined {
  if (stp === false) return { kind: "bridge", data: attributeBytes(bridgeAttributes, { stpState: STP_OFF }) };
  if (bridgePort === undefined) return undefined;
  const data = attributeBytes(bridgePortAttributes, { ...bridgePort, hairpin: bridgePort.hairpin ? 1 : 0 });
  return { slaveKind: "bridge", slaveData: data };
}

/** Returns the request to delete a link; a veth's peer is deleted with it. */
export function deleteLink(link: LinkReference): Request {
  return request(
    `delete link ${describe(link)}`,
    { type: RTM_DELLINK, flags: 0, layout: linkLayout },
    { index: indexOf(link) },
    { name: nameOf(link) },
  );
}

/**
 * Returns the request to delete all links of a group (rtnl_group_dellink).
 *
 * The kernel refuses the whole request when one of them is of a kind that cannot be deleted.
 */
export function deleteLinkGroup(group: number): Request {
  return request(
    `delete the links of group ${group}`,
    { type: RTM_DELLINK, flags: 0, layout: linkLayout },
    {},
    { group },
  );
}

/** Returns the request for one link. */
export function getLink(link: LinkReference): Request {
  return request(
    `get link ${describe(link)}`,
    { type: RTM_GETLINK, flags: 0, layout: linkLayout, isAnswered: true },
    { index: indexOf(link) },
    { name: nameOf(link), extensionMask: SKIP_STATISTICS },
  );
}

/** Returns the request for all links of the namespace, or only for the ports of a bridge. */
export function dumpLinks(master?: number): Request {
  return request(
    "list links",
    { type: RTM_GETLINK, flags: 0, layout: linkLayout },
    {},
    { extensionMask: SKIP_STATISTICS, master },
  );
}

/**
 * Returns the link in a RTM_NEWLINK message.
 *
 * @throws DrawbridgeError ERR_NETLINK_MALFORMED for a malformed message
 */
export function parseLink(message: ReceivedMessage): Link {
  const { header, attributes } = decodeBody(readLayout, message.body);
  const { kind, data, slaveKind, slaveData } = attributes.linkInfo ?? {};
  // A bridge's own notifications about its ports have another form (br_fill_ifinfo).
  const portData = header.family === AF_BRIDGE ? attributes.portInformation : undefined;
  const ofPort = slaveKind === "bridge" ? slaveData : portData;
  const bridge = kind === "bridge" && data !== undefined ? decodeAttributes(bridgeAttributes, data) : undefined;
  return {
    index: header.index,
    name: attributes.name ?? "",
    kind,
    mac: attributes.mac?.length === 6 ? mac.decode(attributes.mac) : undefined,
    mtu: attributes.mtu ?? 0,
    up: (header.flags & IFF_UP) !== 0,
    carrier: (header.flags & IFF_LOWER_UP) !== 0,
    hasLinkLayer: header.type === ETHERNET && (header.flags & IFF_NOARP) === 0,
    operationalState: attributes.operationalState ?? 0,
    master: attributes.master,
    peer: attributes.link,
    alias: attributes.alias,
    bridge: bridge === undefined ? undefined : { stp: bridge.stpState !== 0 },
    bridgePort: ofPort === undefined ? undefined : bridgePortOf(ofPort),
  };
}

function bridgePortOf(data: Uint8Array): Link["bridgePort"] {
  const known = decodeAttributes(bridgePortAttributes, data);
  const { state = FORWARDING, hairpin, groupForwardMask = 0, multicastRouter = 0 } = known;
  return { state, hairpin: hairpin === 1, groupForwardMask, multicastRouter };
}

/** The parts of a link that identify it and its other end. */
export type LinkIdentity = Pick<Link, "index" | "name" | "peer">;

/**
 * Returns the link of a RTM_*LINK message, for a third of {@link parseLink}'s work, as most messages are of no
 * interest.
 *
 * @throws DrawbridgeError ERR_NETLINK_MALFORMED for a malformed message
 */
export function linkIdentity({ body }: ReceivedMessage): LinkIdentity {
  const { header, attributes } = decodeBody(identityLayout, body);
  return { index: header.index, name: attributes.name ?? "", peer: attributes.link };
}

/** Returns a link's IF_OPER_* from its RTM_NEWLINK message, as {@link parseLink} does. @throws as that */
export function operationalStateOf({ body }: ReceivedMessage): number {
  return decodeBody(stateLayout, body).attributes.operationalState ?? 0;
}

/** Returns 0 when the name identifies the link. */
function indexOf(link: LinkReference): number {
  return "index" in link ? link.index : 0;
}

function nameOf(link: LinkReference): string | undefined {
  return "name" in link ? link.name : undefined;
}

function describe(link: LinkReference): string {
  return "index" in link ? String(link.index) : link.name;
}
