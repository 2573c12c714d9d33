import type { Owner } from "../../ipam/owner.ts";
import { invalidField } from "../error.ts";

/** The key of GC's configuration, and its elements (CNI specification 1.1.0, "GC"). */
export const VALID_ATTACHMENTS = "cni.dev/valid-attachments";
export const validAttachmentsShape = { [VALID_ATTACHMENTS]: [{ containerID: "string", ifname: "string" }] } as const;

/**
 * Returns whether the runtime still knows an attachment; without an interface, whether it knows any of the container's.
 */
export type IsValid = (containerId: string, ifname: string | undefined) => boolean;

/**
 * Reads the attachments that a runtime still knows.
 *
 * An entry without an interface, as from a runtime that predates GC, stands for every interface of its container: then
 * too little may be removed, but never too much.
 *
 * @param list undefined for a configuration without the key, or with null
 * @returns undefined without a list, so that nothing may be removed
 * @throws CniError 7 for an entry without a container: it may stand for any
 */
export function validAttachments(
  list: readonly { readonly containerID?: string; readonly ifname?: string }[] | undefined,
): IsValid | undefined {
  if (list === undefined) return undefined;
  const interfaces = new Map<string, Set<string> | "all">();
  for (const [index, { containerID, ifname }] of list.entries()) {
    if (!containerID) throw invalidField(`${VALID_ATTACHMENTS}[${index}].containerID`, containerID, "a container's id");
    const known = interfaces.get(containerID);
    if (!ifname) interfaces.set(containerID, "all");
    else if (known === undefined) interfaces.set(containerID, new Set([ifname]));
    else if (known !== "all") known.add(ifname);
  }
  return (containerId, ifname) => {
    const known = interfaces.get(containerId);
    if (known === undefined) return false;
    return known === "all" || ifname === undefined || known.has(ifname);
  };
}

/** Returns the attachments of a list that the runtime does not know any more. */
export function unknownAttachments(attachments: readonly Owner[], isValid: IsValid): readonly Owner[] {
  return attachments.filter(({ containerId, ifname }) => !isValid(containerId, ifname));
}
