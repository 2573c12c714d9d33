import { decodeAttributes } from "../netlink/attribute.ts";
import { decodeBody, type ReceivedMessage, type Request, request } from "../netlink/message.ts";
import {
  addReceivedFilter,
  filterInfo,
  KIND_CLASSIFIER,
  redirectionOf,
  redirectTo,
  RTM_GETTFILTER,
  u32Attributes,
} from "./filter.ts";
import { RECEIVED, trafficControlLayout } from "./message.ts";

/** Includes frames with VLAN tags and of unknown protocols. */
const INFO = filterInfo(1, "all");

/**
 * Returns the request to have another link send every frame that a link receives (cls_u32, act_mirred). While the other
 * link is down, the frames are dropped.
 *
 * The classifier has no key. A key that compares nothing ("match u32 0 0") would not match frames that are too short
 * for its four bytes (u32_classify), so their sender would not be limited.
 */
export function redirectReceived(index: number, target: number): Request {
  return addReceivedFilter(
    `redirect what link ${index} receives to link ${target} (kernel options NET_CLS_U32, NET_ACT_MIRRED)`,
    { index, info: INFO, words: [], actions: redirectTo(target, "sent") },
  );
}

/** Returns the request for the filters of received frames; ENOENT or EINVAL when the link has no classifiers. */
export function dumpReceivedFilters(index: number): Request {
  return request(
    `list the filters of what link ${index} receives`,
    { type: RTM_GETTFILTER, flags: 0, layout: trafficControlLayout },
    { index, parent: RECEIVED },
    {},
  );
}

/**
 * Returns the index of the link to which a filter in a RTM_NEWTFILTER message redirects every frame; undefined for a
 * filter that does anything else or matches less.
 *
 * @throws DrawbridgeError ERR_NETLINK_MALFORMED for a malformed message
 */
export function parseRedirect(message: ReceivedMessage): number | undefined {
  const { header, attributes } = decodeBody(trafficControlLayout, message.body);
  if (attributes.kind !== KIND_CLASSIFIER || attributes.options === undefined) return undefined;
  if (header.info % 0x1_0000 !== INFO % 0x1_0000) return undefined;
  const { selector, actions } = decodeAttributes(u32Attributes, attributes.options);
  return selector?.words.length === 0 ? redirectionOf(actions, "sent") : undefined;
}
