import type { Family } from "../ip/address.ts";
import { addressFamilyNumber } from "./address_family.ts";

/** The netlink protocol of nftables, connection tracking, packet queues and packet logging (include/uapi/linux/netlink.h). */
export const NETLINK_NETFILTER = 12;

/** NFNL_SUBSYS_* (include/uapi/linux/netfilter/nfnetlink.h). */
export const Subsystem = { CONNTRACK: 1, QUEUE: 3, LOG: 4, NFTABLES: 10 } as const;

/** NFNLGRP_*: the multicast groups of notifications (include/uapi/linux/netfilter/nfnetlink.h). */
export const NetfilterGroup = {
  CONNTRACK_NEW: 1,
  CONNTRACK_UPDATE: 2,
  CONNTRACK_DESTROY: 3,
  NFTABLES: 7,
  NFTABLES_TRACE: 9,
} as const;

/** struct nfgenmsg, the header of every message. The version is always 0. */
export const netfilterHeader = { family: "u8", version: "u8", resourceId: "be16" } as const;

/** Returns the type of a message: the subsystem in the high byte, its own number in the low one. */
export function messageType(subsystem: number, number: number): number {
  return (subsystem << 8) | number;
}

/** Returns NFPROTO_IPV4 or NFPROTO_IPV6, which equal AF_INET and AF_INET6; 0 for both families. */
export function familyNumber(family: Family | undefined): number {
  return family === undefined ? 0 : addressFamilyNumber(family);
}
