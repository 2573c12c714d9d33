import type { AttachmentRecord } from "../../ipam/attachment.ts";
import { DrawbridgeError } from "../../kernel/error.ts";

/**
 * The rules of policies are about the packets of one bridge (POD-08): a pod on another would be open, whatever they say.
 *
 * @param bridge the daemon's; undefined where no policies are enforced
 * @throws DrawbridgeError ERR_CONFIGURATION for a pod on another bridge
 */
export function demandPolicedBridge(attachment: Pick<AttachmentRecord, "bridge">, bridge: string | undefined): void {
  if (isPoliced(attachment, bridge)) return;
  throw new DrawbridgeError(
    "ERR_CONFIGURATION",
    `bridge: ${JSON.stringify(attachment.bridge)}; expected ${JSON.stringify(bridge)}, that of policyd, on which alone policies hold: give the plugin and policyd the same bridge`,
  );
}

/** The same for pods that are there already, in words; for all of them at once. */
export function bridgeProblems(attachments: Iterable<AttachmentRecord>, bridge: string | undefined): readonly string[] {
  const others = [...attachments].filter((attachment) => !isPoliced(attachment, bridge));
  const [first] = others;
  if (first === undefined) return [];
  const who = first.pod === undefined ? first.containerId : `${first.pod.namespace}/${first.pod.name}`;
  return [
    `bridge: ${others.length} pods, such as ${who} on ${JSON.stringify(first.bridge)}, are not on ${JSON.stringify(bridge)}, ` +
      "so that no policy holds for them: give policyd the bridge they are on, or recreate them",
  ];
}

function isPoliced(attachment: Pick<AttachmentRecord, "bridge">, bridge: string | undefined): boolean {
  return bridge === undefined || attachment.bridge === bridge;
}
