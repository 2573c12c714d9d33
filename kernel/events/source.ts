import { NETLINK_NETFILTER, NetfilterGroup } from "../netfilter/message.ts";
import type { Request } from "../netlink/message.ts";
import type { LogGroup } from "../nflog/group.ts";
import { bindLogGroup } from "../nflog/group.ts";

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

/** What to listen to, as plain data that crosses threads. */
export type EventSource = { readonly receiveBufferBytes?: number } & (
  | { readonly kind: "route"; readonly groups: readonly (keyof typeof routeGroups)[] }
  /** `exceptPortId`: the socket whose own commits are not told. */
  | { readonly kind: "nftables"; readonly exceptPortId?: number }
  | { readonly kind: "conntrack"; readonly events: readonly (keyof typeof conntrackGroups)[] }
  | ({ readonly kind: "nflog" } & LogGroup)
);

/** How a source is opened. */
export interface SourcePlan {
  readonly protocol: number;
  /** The multicast groups to join. */
  readonly groups: readonly number[];
  /** What to ask for on the socket itself. */
  readonly requests: readonly Request[];
  /**
   * Whether messages tell of changes of a state, so that after a loss those still queued are worse than none; packets
   * of a log stand for themselves.
   */
  readonly tellsState: boolean;
  /** Datagrams about requests of this socket are dropped: what we did we need not be told. */
  readonly ignoredPortId?: number;
  /** How much the kernel keeps while nobody reads. */
  readonly receiveBufferBytes: number;
}

/** Memory the kernel takes only while messages wait: a few ten thousand of them. */
const RECEIVE_BUFFER_BYTES = 8 * 1024 * 1024;

/** The socket a source needs. @throws RangeError for a log group that is none */
export function planSource(source: EventSource): SourcePlan {
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
