import { readAttachment } from "../../attachment/attachment.ts";
import { ENDED_SECONDS, endedAttachments, forgetEnded } from "../../attachment/ended.ts";
import type { Owner } from "../../ipam/owner.ts";
import { DrawbridgeError } from "../../kernel/error.ts";
import { CniError } from "../error.ts";
import type { PluginMachine } from "../host.ts";
import { uptime } from "../status/failure_record.ts";
import { linksOf } from "./proof.ts";

/** The most sandboxes for one ADD. The next ADDs remove the rest: a pod must not wait for hundreds of others. */
const MOST_AT_ONCE = 8;

/**
 * Removes the remains of sandboxes that ended without DEL a quarter of an hour ago: addresses, neighbours, rules and
 * records, as their DEL would. ADD does this first, since runtimes need not call GC, and since only the plugin can
 * release addresses. A sandbox that has a link by now is not removed. After a failure the next ADD tries again.
 *
 * @param detach the DEL of an attachment whose namespace is gone
 */
export function detachEnded(
  node: PluginMachine,
  { runDir, name }: { readonly runDir: string; readonly name: string },
  detach: (attachment: Owner) => void,
): void {
  try {
    const marks = endedAttachments(runDir, name, node.bootId(), node.files);
    const seconds = marks.length === 0 ? undefined : uptime(node);
    if (seconds === undefined) return;
    const over = marks.filter(({ since }) => seconds - since >= ENDED_SECONDS);
    const hasLink = linksOf(node);
    for (const { containerId, ifname } of over.slice(0, MOST_AT_ONCE)) {
      const owner = { containerId, ifname };
      const record = readAttachment(runDir, name, owner, node.files);
      if (record === undefined) forgetEnded(runDir, name, owner, node.files);
      else if (!hasLink(record.hostInterface)) detach(owner);
    }
  } catch (error) {
    if (!(error instanceof DrawbridgeError) && !(error instanceof CniError)) throw error;
  }
}
