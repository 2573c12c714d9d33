import type { AttachmentRecord } from "../../ipam/attachment.ts";
import { readAttachment } from "../../ipam/attachment.ts";
import { getLink } from "../../kernel/route/link.ts";
import type { LinkWriter } from "./link_removal.ts";
import type { RecordPlace } from "./registry.ts";

/**
 * Whether anything is left of an attachment. A DEL that found no daemon has removed both its link and its record; one
 * that is being made has its record from before it registers, and its link only later.
 */
export function isPresent(
  attachment: AttachmentRecord,
  { stateDirectory, files }: Pick<RecordPlace, "stateDirectory" | "files">,
  links: Pick<LinkWriter, "batch">,
): boolean {
  if (readAttachment(stateDirectory, attachment.network, attachment, files) !== undefined) return true;
  return hasLink(attachment, links);
}

/** Whether an attachment's link is there; also where the kernel does not tell. */
export function hasLink({ hostInterface }: AttachmentRecord, links: Pick<LinkWriter, "batch">): boolean {
  const [reply] = links.batch([getLink({ name: hostInterface })]);
  return reply?.error?.errnoName !== "ENODEV";
}
