import { readAttachment } from "../../attachment/attachment.ts";
import { ENDED_SECONDS, type EndedMark, forgetEnded } from "../../attachment/ended.ts";
import type { Owner } from "../../ipam/owner.ts";
import { DrawbridgeError } from "../../kernel/error.ts";
import { CniError } from "../error.ts";
import type { PluginMachine } from "../host.ts";
import { uptime } from "../status/failure_record.ts";
import { linksOf } from "./proof.ts";

/** The most sandboxes for one ADD. The next ADDs remove the rest: a pod must not wait for hundreds of others. */
const MOST_AT_ONCE = 8;

/**
 * Removes what is left of marked sandboxes, of those whose time is over, except where this fails.
 *
 * @param detach the DEL of an attachment whose namespace is gone
 */
export function detachMarked(
  node: PluginMachine,
  { runDir, name }: { readonly runDir: string; readonly name: string },
  marks: readonly EndedMark[],
  detach: (attachment: Owner) => void,
): void {
  const seconds = uptime(node);
  if (seconds === undefined) return;
  const over = marks.filter(({ since }) => seconds - since >= ENDED_SECONDS);
  const hasLink = linksOf(node);
  for (const { containerId, ifname } of over.slice(0, MOST_AT_ONCE)) {
    const owner = { containerId, ifname };
    try {
      const record = readAttachment(runDir, name, owner, node.files);
      if (record === undefined) forgetEnded(runDir, name, owner, node.files);
      else if (!hasLink(record.hostInterface)) detach(owner);
    } catch (error) {
      // One that cannot be removed must not keep the others.
      if (!(error instanceof DrawbridgeError) && !(error instanceof CniError)) throw error;
    }
  }
}
