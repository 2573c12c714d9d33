import type { AttachmentRecord } from "../../ipam/attachment.ts";
import { findLink } from "../../kernel/route/socket.ts";
import { deleteQueueingDiscipline } from "../../kernel/traffic_control/queueing_discipline.ts";
import type { LinkWriter } from "./link_removal.ts";

/** Whose port it is: a link of that name with another MAC address is somebody else's. */
export type BypassedPort = Pick<AttachmentRecord, "hostInterface" | "hostMac">;

/** What the kernel answers where there is no link any more, or no place for classifiers on it. */
const NOTHING_THERE = ["ENODEV", "ENOENT", "EINVAL"];

/**
 * Has the bridge look again at all that a pod sends. It is for a pod whose address has become another's while it is still
 * there: the guard does not know it any more and drops what it sends, but what goes around the bridge would be taken for
 * the other's. Its limit of bandwidth goes as well, which counts for nothing then.
 *
 * @throws NetlinkError, SyscallError when the kernel refuses
 */
export function endBypass({ hostInterface, hostMac }: BypassedPort, links: Pick<LinkWriter, "batch">): void {
  const link = findLink(links, { name: hostInterface });
  if (link?.mac !== hostMac) return;
  const [removed] = links.batch([deleteQueueingDiscipline(link.index, "classifiers")]);
  const error = removed?.error;
  if (error !== undefined && !NOTHING_THERE.includes(error.errnoName)) throw error;
}
