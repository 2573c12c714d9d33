import { displayName } from "../../attachment/names_and_macs.ts";
import type { AttachmentRecord } from "../../attachment/attachment.ts";
import { DrawbridgeError } from "../../kernel/error.ts";

/**
 * Refuses a pod on another bridge than the daemon's (POD-08): the rules of policies see only that bridge's packets.
 *
 * @param bridge the daemon's; undefined where no policies are enforced
 * @throws DrawbridgeError ERR_CONFIGURATION for a pod on another bridge
 */
export function demandPolicedBridge(attachment: Pick<AttachmentRecord, "bridge">, bridge: string | undefined): void {
  if (isPoliced(attachment, bridge)) return;
  throw new DrawbridgeError(
    "ERR_CONFIGURATION",
    `bridge: ${JSON.stringify(attachment.bridge)}; expected ${JSON.stringify(bridge)}, policyd's bridge, the only one on which it enforces policies: give the plugin and policyd the same bridge`,
  );
}

/** Returns one problem for all existing pods that are on another bridge, or none. */
export function bridgeProblems(attachments: Iterable<AttachmentRecord>, bridge: string | undefined): readonly string[] {
  const others = [...attachments].filter((attachment) => !isPoliced(attachment, bridge));
  const [first] = others;
  if (first === undefined) return [];
  const who = displayName(first);
  return [
    `bridge: ${others.length} pods, such as ${who} on ${JSON.stringify(first.bridge)}, are not on ${JSON.stringify(bridge)}, ` +
      "so that no policy holds for them: give policyd the bridge they are on, or recreate them",
  ];
}

function isPoliced(attachment: Pick<AttachmentRecord, "bridge">, bridge: string | undefined): boolean {
  return bridge === undefined || attachment.bridge === bridge;
}
