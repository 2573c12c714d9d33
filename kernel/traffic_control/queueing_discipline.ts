import { decodeBody, MessageFlag, type ReceivedMessage, type Request, request } from "../netlink/message.ts";
import { CLASSIFIERS, ROOT, trafficControlLayout } from "./message.ts";

export const RTM_NEWQDISC = 36;
const RTM_DELQDISC = 37;
const RTM_GETQDISC = 38;

/** The discipline that holds classifiers of received and sent frames. */
const KIND_CLASSIFIERS = "clsact";

/** The place of a queueing discipline: at the frames that a link sends, or at its classifiers. */
export type Attachment = "root" | "classifiers";

const parents: Readonly<Record<Attachment, number>> = { root: ROOT, classifiers: CLASSIFIERS };

/** The data that the kernel reports about any kind of queueing discipline. */
export interface QueueingDiscipline {
  /** The index of its link. */
  readonly index: number;
  readonly kind: string;
  readonly attachment: Attachment | undefined;
}

/** Returns the request to add a place for classifiers to a link (sch_ingress); EEXIST when it has one. */
export function addClassifiers(index: number): Request {
  return request(
    `make a place for classifiers on link ${index} (kernel options NET_SCH_INGRESS, NET_CLS_ACT)`,
    { type: RTM_NEWQDISC, flags: MessageFlag.CREATE | MessageFlag.EXCL, layout: trafficControlLayout },
    { index, parent: CLASSIFIERS },
    { kind: KIND_CLASSIFIERS },
  );
}

/** Returns the request to delete a link's queueing discipline with its filters; ENOENT or EINVAL when there is none. */
export function deleteQueueingDiscipline(index: number, attachment: Attachment): Request {
  return request(
    `remove the ${attachment} queueing discipline of link ${index}`,
    { type: RTM_DELQDISC, flags: 0, layout: trafficControlLayout },
    { index, parent: parents[attachment] },
    {},
  );
}

/** Returns the request for the queueing disciplines of a link. */
export function dumpQueueingDisciplines(index: number): Request {
  return request(
    `list the queueing disciplines of link ${index}`,
    { type: RTM_GETQDISC, flags: 0, layout: trafficControlLayout },
    { index },
    {},
  );
}

/**
 * Returns the queueing discipline in a RTM_NEWQDISC message.
 *
 * @throws DrawbridgeError ERR_NETLINK_MALFORMED for a malformed message
 */
export function parseQueueingDiscipline(message: ReceivedMessage): QueueingDiscipline {
  const { header, attributes } = decodeBody(trafficControlLayout, message.body);
  const attachment = header.parent === ROOT ? "root" : header.parent === CLASSIFIERS ? "classifiers" : undefined;
  return { index: header.index, kind: attributes.kind ?? "", attachment };
}
