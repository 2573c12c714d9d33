import { isDeepStrictEqual } from "node:util";
import type { AttachmentRecord } from "../../attachment/attachment.ts";
import { readAttachment } from "../../attachment/attachment_reader.ts";
import { getLink } from "../../kernel/route/link.ts";
import type { LinkWriter } from "./link_removal.ts";
import type { RecordPlace } from "./registry.ts";

/** Looks for what is left of attachments. */
export interface AttachmentPresence {
  /**
   * Whether an attachment's link exists, and is not that of another one that has replaced it; also true where the kernel
   * answers with an error other than ENODEV.
   */
  readonly hasLink: (attachment: AttachmentRecord) => boolean;
  /**
   * Whether the record under an attachment's names is of a later ADD, after a DEL that this daemon has not carried out:
   * then the link of that name is not this attachment's. An ADD writes its record before it makes its link.
   */
  readonly isReplaced: (attachment: AttachmentRecord) => boolean;
  /**
   * Whether a record or a link of an attachment is left. A DEL that found no daemon has removed both. An ADD writes the
   * record before it registers, and makes the link only later.
   */
  readonly isPresent: (attachment: AttachmentRecord) => boolean;
}

/** Returns the presence of attachments by their records and links. */
export function attachmentPresence(
  { stateDirectory, files }: Pick<RecordPlace, "stateDirectory" | "files">,
  links: Pick<LinkWriter, "batch">,
): AttachmentPresence {
  const recorded = (attachment: AttachmentRecord): AttachmentRecord | undefined =>
    readAttachment(stateDirectory, attachment.network, attachment, files);
  const isReplaced = (attachment: AttachmentRecord): boolean => {
    const { netns, addresses } = recorded(attachment) ?? attachment;
    return !isDeepStrictEqual([netns, addresses], [attachment.netns, attachment.addresses]);
  };
  const hasLink = (attachment: AttachmentRecord): boolean => {
    const [reply] = links.batch([getLink({ name: attachment.hostInterface })]);
    return reply?.error?.errnoName !== "ENODEV" && !isReplaced(attachment);
  };
  const isPresent = (attachment: AttachmentRecord): boolean =>
    recorded(attachment) === undefined ? hasLink(attachment) : !isReplaced(attachment);
  return { hasLink, isReplaced, isPresent };
}
