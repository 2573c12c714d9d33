import { listAttachmentNames, readAttachment } from "../../attachment/attachment_reader.ts";
import type { Owner } from "../../ipam/owner.ts";
import type { DetachConfiguration, ReleaseConfiguration } from "../configuration/detach_configuration.ts";
import { CniError, toCniError } from "../error.ts";
import { oldPendings } from "../delegation/delegation_file.ts";
import { hostInterfaceName } from "../../attachment/names_and_macs.ts";
import type { PluginMachine } from "../host.ts";
import { releaseOldReservations } from "./ended.ts";
import { hasEnded, linksOf } from "./proof.ts";
import { type IsValid, unknownAttachments } from "./valid_attachments.ts";

/** The number of errors that are reported in full; the others are only counted. */
const MOST_REPORTED = 10;

/**
 * Removes the remains of attachments that the runtime does not know any more: the GC verb.
 *
 * The runtime's list does not suffice: an attachment is removed only if it has also ended ({@link hasEnded}), so that a
 * runtime with an incomplete list, or a second runtime of the same network, loses no pod. An attachment is removed as
 * by its DEL. So is one without a record for which an external IPAM plugin may hold addresses, after a killed ADD or a
 * GC whose DEL that plugin refused. Records of valid attachments are not read, so the time depends only on the number
 * of removed ones. Another call may remove some meanwhile. Errors do not stop the GC, and are reported together.
 *
 * @param detach the DEL of an attachment whose namespace is gone
 * @param forward GC of an external IPAM plugin
 * @throws CniError with the code of the first error
 */
export function gc(
  node: PluginMachine,
  configuration: DetachConfiguration,
  isValid: IsValid,
  detach: (attachment: Owner) => void,
  forward: () => void,
): void {
  const { runDir, name } = configuration;
  const { errors, attempt } = gatherErrors();
  const names = listAttachmentNames(runDir, name, node.files);
  const hasLink = linksOf(node);
  for (const owner of unknownAttachments(names, isValid)) {
    attempt(() => {
      const record = readAttachment(runDir, name, owner, node.files);
      if (record !== undefined && hasEnded(node, record, hasLink)) detach(owner);
    });
  }
  const recorded = new Set(names.map(({ containerId, ifname }) => `${containerId}:${ifname}`));
  const hasRecord = ({ containerId, ifname }: Owner): boolean => recorded.has(`${containerId}:${ifname}`);
  for (const owner of unknownAttachments(oldPendings(node, runDir, name), isValid)) {
    attempt(() => {
      const link = hostInterfaceName(node.sha256, owner.containerId, owner.ifname);
      if (!hasRecord(owner) && !hasLink(link)) detach(owner);
    });
  }
  attempt(() => releaseOldReservations(node, configuration, isValid, hasRecord, attempt));
  attempt(forward);
  report(errors);
}

/**
 * Carries out GC as an IPAM plugin for other interface plugins: removes only reservations from before this boot.
 *
 * @throws CniError as {@link gc}
 */
export function collectReservations(node: PluginMachine, configuration: ReleaseConfiguration, isValid: IsValid): void {
  const { errors, attempt } = gatherErrors();
  attempt(() => releaseOldReservations(node, configuration, isValid, () => false, attempt));
  report(errors);
}

function gatherErrors(): { readonly errors: CniError[]; readonly attempt: (action: () => void) => void } {
  const errors: CniError[] = [];
  const attempt = (action: () => void): void => {
    try {
      action();
    } catch (error) {
      errors.push(toCniError(error));
    }
  };
  return { errors, attempt };
}

/** Throws the errors, if any, as one. @throws CniError with the code of the first error */
function report(errors: readonly CniError[]): void {
  const [first] = errors;
  if (first === undefined) return;
  const reported = errors.slice(0, MOST_REPORTED).map(({ message }) => message);
  const others = errors.length - reported.length;
  throw new CniError(
    first.code,
    `${reported.join("; ")}${others > 0 ? `; and ${others} more` : ""}`,
    "the other attachments were handled: call GC again",
  );
}
