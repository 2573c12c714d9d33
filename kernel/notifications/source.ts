import { NETLINK_NETFILTER, NetfilterGroup } from "../netlink/netfilter_message.ts";
import type { Request } from "../netlink/message.ts";
import { bindLogGroup, type LogGroup } from "../packets/log_group.ts";

const NETLINK_ROUTE = 0;

/** RTNLGRP_* (include/uapi/linux/rtnetlink.h). */
const routeGroups = {
  link: 1,
  neighbour: 3,
  "traffic-control": 4,
  "ipv4-address": 5,
  "ipv4-route": 7,
  "ipv6-address": 9,
  "ipv6-route": 11,
  "ipv4-rule": 8,
  "ipv6-rule": 19,
  "ipv4-settings": 24,
  "ipv6-settings": 25,
} as const;

const conntrackGroups = {
  new: NetfilterGroup.CONNTRACK_NEW,
  update: NetfilterGroup.CONNTRACK_UPDATE,
  destroy: NetfilterGroup.CONNTRACK_DESTROY,
} as const;

/** A source to listen to. */
export type NotificationSource = { readonly receiveBufferBytes?: number } & (
  | { readonly kind: "route"; readonly groups: readonly (keyof typeof routeGroups)[] }
  /** `exceptPortId`: the socket whose own commits are not reported. */
  | { readonly kind: "nftables"; readonly exceptPortId?: number }
  | { readonly kind: "conntrack"; readonly events: readonly (keyof typeof conntrackGroups)[] }
  | ({ readonly kind: "nflog" } & LogGroup)
);

/** How a source is opened. */
export interface SourcePlan {
  readonly protocol: number;
  /** The multicast groups to join. */
  readonly groups: readonly number[];
  /** The requests to make on the socket itself. */
  readonly requests: readonly Request[];
  /**
   * Whether messages report changes of a state. After a loss, those still queued are then worse than none. Logged
   * packets stand for themselves.
   */
  readonly tellsState: boolean;
  /** Datagrams about requests of this socket are dropped, because we already know what we did. */
  readonly ignoredPortId?: number;
  /** The bytes that the kernel queues while nobody reads. */
  readonly receiveBufferBytes: number;
}

/** Room for a few ten thousand messages. The kernel uses the memory only while messages wait. */
const RECEIVE_BUFFER_BYTES = 8 * 1024 * 1024;

/** Returns the plan of the socket that a source needs. @throws RangeError for an invalid log group */
export function planSource(source: NotificationSource): SourcePlan {
  const receiveBufferBytes = source.receiveBufferBytes ?? RECEIVE_BUFFER_BYTES;
  const netfilter = { protocol: NETLINK_NETFILTER, groups: [], requests: [], tellsState: true, receiveBufferBytes };
  switch (source.kind) {
    case "route":
      return { ...netfilter, protocol: NETLINK_ROUTE, groups: source.groups.map((name) => routeGroups[name]) };
    case "nftables":
      return {
        ...netfilter,
        groups: [NetfilterGroup.NFTABLES],
        ...(source.exceptPortId === undefined ? {} : { ignoredPortId: source.exceptPortId }),
      };
    case "conntrack":
      return { ...netfilter, groups: source.events.map((name) => conntrackGroups[name]) };
    case "nflog":
      return { ...netfilter, requests: [bindLogGroup(source)], tellsState: false };
  }
}
