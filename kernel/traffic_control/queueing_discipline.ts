import type { ReceivedMessage, Request } from "../netlink/message.ts";
import { decodeBody, MessageFlag, request } from "../netlink/message.ts";
import { CLASSIFIERS, ROOT, trafficControlLayout } from "./message.ts";

export const RTM_NEWQDISC = 36;
const RTM_DELQDISC = 37;
const RTM_GETQDISC = 38;

/** The place for classifiers of what a link receives and sends. */
const KIND_CLASSIFIERS = "clsact";

/** Where a queueing discipline hangs: at what a link sends, or at its classifiers. */
export type Attachment = "root" | "classifiers";

const parents: Readonly<Record<Attachment, number>> = { root: ROOT, classifiers: CLASSIFIERS };

/** What the kernel says of a queueing discipline, whatever its kind. */
export interface QueueingDiscipline {
  /** The link it belongs to. */
  readonly index: number;
  readonly kind: string;
  readonly attachment: Attachment | undefined;
}

/** Gives a link a place for classifiers (sch_ingress); EEXIST when it has one. */
export function addClassifiers(index: number): Request {
  return request(
    `make a place for classifiers on link ${index} (kernel options NET_SCH_INGRESS, NET_CLS_ACT)`,
    { type: RTM_NEWQDISC, flags: MessageFlag.CREATE | MessageFlag.EXCL, layout: trafficControlLayout },
    { index, parent: CLASSIFIERS },
    { kind: KIND_CLASSIFIERS },
  );
}

/** Takes a queueing discipline from a link, with the filters in it; ENOENT or EINVAL when there is none. */
export function deleteQueueingDiscipline(index: number, attachment: Attachment): Request {
  return request(
    `remove the ${attachment} queueing discipline of link ${index}`,
    { type: RTM_DELQDISC, flags: 0, layout: trafficControlLayout },
    { index, parent: parents[attachment] },
    {},
  );
}

/** Asks for the queueing disciplines of a link. */
export function dumpQueueingDisciplines(index: number): Request {
  return request(
    `list the queueing disciplines of link ${index}`,
    { type: RTM_GETQDISC, flags: 0, layout: trafficControlLayout },
    { index },
    {},
  );
}

/**
 * The queueing discipline a RTM_NEWQDISC message describes.
 *
 * @throws DrawbridgeError ERR_NETLINK_MALFORMED when it is not one
 */
export function parseQueueingDiscipline(message: ReceivedMessage): QueueingDiscipline {
  const { header, attributes } = decodeBody(trafficControlLayout, message.body);
  const attachment = header.parent === ROOT ? "root" : header.parent === CLASSIFIERS ? "classifiers" : undefined;
  return { index: header.index, kind: attributes.kind ?? "", attachment };
}
