import type { AttachmentRecord } from "./attachment.ts";

/** Whether an attachment has elements in the node's tables. */
export function asksForNodeRules(use: Pick<AttachmentRecord, "portMappings" | "ipMasq" | "macspoofchk">): boolean {
  return use.portMappings.length > 0 || use.ipMasq === true || use.macspoofchk === true;
}
