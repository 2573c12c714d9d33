import { type AttachmentRecord, readAttachment } from "../../cni/attachment/attachment.ts";
import { getLink } from "../../kernel/route/link.ts";
import type { LinkWriter } from "./link_removal.ts";
import type { RecordPlace } from "./registry.ts";

/**
 * Whether anything is left of an attachment. A DEL that found no daemon has removed both the link and the record. An
 * ADD writes the record before it registers, and makes the link only later.
 */
export function isPresent(
  attachment: AttachmentRecord,
  { stateDirectory, files }: Pick<RecordPlace, "stateDirectory" | "files">,
  links: Pick<LinkWriter, "batch">,
): boolean {
  if (readAttachment(stateDirectory, attachment.network, attachment, files) !== undefined) return true;
  return hasLink(attachment, links);
}

/** Whether an attachment's link exists; also true where the kernel answers with an error other than ENODEV. */
export function hasLink({ hostInterface }: AttachmentRecord, links: Pick<LinkWriter, "batch">): boolean {
  const [reply] = links.batch([getLink({ name: hostInterface })]);
  return reply?.error?.errnoName !== "ENODEV";
}
