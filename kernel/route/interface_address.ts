import { type Family, familyOf } from "../ip/address.ts";
import { type Cidr, formatCidr, lastAddress } from "../ip/cidr.ts";
import { address, type AttributeTable, u32 } from "../netlink/attribute.ts";
import {
  type BodyLayout,
  decodeBody,
  MessageFlag,
  type ReceivedMessage,
  type Request,
  request,
} from "../netlink/message.ts";
import type { NetlinkSocket } from "../netlink/socket.ts";
import { addressFamilyNumber } from "../netlink/address_family.ts";

const RTM_NEWADDR = 20;
const RTM_DELADDR = 21;
const RTM_GETADDR = 22;

const IFA_F_NODAD = 0x02;
const IFA_F_DADFAILED = 0x08;
const IFA_F_TENTATIVE = 0x40;
const IFA_F_PERMANENT = 0x80;

/** struct ifaddrmsg and IFA_* (include/uapi/linux/if_addr.h). */
const layout = {
  struct: { family: "u8", prefixLength: "u8", flags: "u8", scope: "u8", index: "u32" },
  attributes: {
    address: [1, address],
    local: [2, address],
    broadcast: [4, address],
    flags: [8, u32],
  },
} as const satisfies BodyLayout & { attributes: AttributeTable };

/** An address of an interface. */
export interface InterfaceAddress {
  readonly index: number;
  readonly address: Cidr;
  readonly scope: number;
  /** Whether duplicate address detection is in progress, so that the address does not answer yet. */
  readonly tentative: boolean;
  readonly duplicateDetected: boolean;
  /** Whether it has no end: it does not come from a router advertisement or from DHCP. */
  readonly permanent: boolean;
}

/**
 * Returns the request to add an address to an interface; EEXIST when the interface has it.
 *
 * IPv6 addresses skip duplicate address detection (IFA_F_NODAD), so that they answer at once (POD-23). IPv4 prefixes
 * shorter than /31 get their broadcast address, as with `ip address add … brd +`.
 */
export function newAddress(index: number, cidr: Cidr): Request {
  const isV4 = familyOf(cidr.address) === 4;
  return request(
    () => `add address ${formatCidr(cidr)} to link ${index}`,
    { type: RTM_NEWADDR, flags: MessageFlag.CREATE | MessageFlag.EXCL, layout },
    { family: addressFamilyNumber(familyOf(cidr.address)), prefixLength: cidr.prefixLength, index },
    {
      local: cidr.address,
      address: cidr.address,
      broadcast: isV4 && cidr.prefixLength < 31 ? lastAddress(cidr) : undefined,
      flags: isV4 ? undefined : IFA_F_NODAD,
    },
  );
}

/** Returns the request to delete an address from an interface. */
export function deleteAddress(index: number, cidr: Cidr): Request {
  return request(
    () => `delete address ${formatCidr(cidr)} from link ${index}`,
    { type: RTM_DELADDR, flags: 0, layout },
    { family: addressFamilyNumber(familyOf(cidr.address)), prefixLength: cidr.prefixLength, index },
    { local: cidr.address, address: cidr.address },
  );
}

/** Returns the request for the namespace's addresses, optionally of only one family and one interface. */
export function dumpAddresses(filter: { readonly family?: Family; readonly index?: number } = {}): Request {
  return request(
    "list addresses",
    { type: RTM_GETADDR, flags: 0, layout },
    { family: filter.family === undefined ? 0 : addressFamilyNumber(filter.family), index: filter.index ?? 0 },
    {},
  );
}

/** Returns the namespace's addresses, as {@link dumpAddresses} asks for them. @throws NetlinkError */
export function listAddresses(
  socket: Pick<NetlinkSocket, "dump">,
  filter?: Parameters<typeof dumpAddresses>[0],
): readonly InterfaceAddress[] {
  return socket.dump(dumpAddresses(filter)).flatMap((message) => parseInterfaceAddress(message) ?? []);
}

/**
 * Returns the address in a RTM_NEWADDR message; undefined for a message without an address.
 *
 * @throws DrawbridgeError ERR_NETLINK_MALFORMED for a malformed message
 */
export function parseInterfaceAddress(message: ReceivedMessage): InterfaceAddress | undefined {
  const { header, attributes } = decodeBody(layout, message.body);
  const own = attributes.local ?? attributes.address;
  if (own === undefined) return undefined;
  const flags = attributes.flags ?? header.flags;
  return {
    index: header.index,
    address: { address: own, prefixLength: header.prefixLength },
    scope: header.scope,
    tentative: (flags & IFA_F_TENTATIVE) !== 0,
    duplicateDetected: (flags & IFA_F_DADFAILED) !== 0,
    permanent: (flags & IFA_F_PERMANENT) !== 0,
  };
}
