import type { AttachmentRecord } from "../../attachment/attachment.ts";
import { findLink } from "../../kernel/route/socket.ts";
import { deleteClassifiers } from "../../kernel/traffic_control/queueing_discipline.ts";
import type { LinkWriter } from "./link_removal.ts";

/** A pod's bridge port. A link of that name with another MAC address is not this pod's. */
export type BypassedPort = Pick<AttachmentRecord, "hostInterface" | "hostMac">;

/** The kernel's errors where the link is gone, or where it has no qdisc for classifiers. */
const NOTHING_THERE = ["ENODEV", "ENOENT", "EINVAL"];

/**
 * Removes the bypass of the bridge from a pod's port, so that all its packets pass the bridge again. Use it for a pod
 * that still exists although its address now belongs to another pod: the guard no longer knows it and drops its
 * packets, but packets that bypass the bridge would be taken for the other pod's. The pod also loses its bandwidth
 * limit, which no longer matters.
 *
 * @throws NetlinkError, SyscallError when the kernel refuses
 */
export function endBypass({ hostInterface, hostMac }: BypassedPort, links: Pick<LinkWriter, "batch">): void {
  const link = findLink(links, { name: hostInterface });
  if (link?.mac !== hostMac) return;
  const [removed] = links.batch([deleteClassifiers(link.index)]);
  const error = removed?.error;
  if (error !== undefined && !NOTHING_THERE.includes(error.errnoName)) throw error;
}
