import { MessageFlag, type Request, request } from "../netlink/message.ts";
import { CLASSIFIERS, trafficControlLayout } from "./message.ts";

export const RTM_NEWQDISC = 36;
const RTM_DELQDISC = 37;

/** The discipline that holds classifiers of received and sent frames. */
const KIND_CLASSIFIERS = "clsact";

/** Returns the request to add a place for classifiers to a link (sch_ingress); EEXIST when it has one. */
export function addClassifiers(index: number): Request {
  return request(
    `make a place for classifiers on link ${index} (kernel options NET_SCH_INGRESS, NET_CLS_ACT)`,
    { type: RTM_NEWQDISC, flags: MessageFlag.CREATE | MessageFlag.EXCL, layout: trafficControlLayout },
    { index, parent: CLASSIFIERS },
    { kind: KIND_CLASSIFIERS },
  );
}

/** Returns the request to delete a link's place for classifiers with its filters; ENOENT or EINVAL when it has none. */
export function deleteClassifiers(index: number): Request {
  return request(
    `remove the classifiers of link ${index}`,
    { type: RTM_DELQDISC, flags: 0, layout: trafficControlLayout },
    { index, parent: CLASSIFIERS },
    {},
  );
}
