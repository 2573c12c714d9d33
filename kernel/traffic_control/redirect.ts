import { type Request, request } from "../netlink/message.ts";
import { addReceivedFilter, filterInfo, redirectTo, RTM_GETTFILTER } from "./filter.ts";
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
