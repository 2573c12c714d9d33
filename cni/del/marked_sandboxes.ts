import { endedAttachments } from "../../attachment/ended.ts";
import type { Owner } from "../../ipam/owner.ts";
import { DrawbridgeError } from "../../kernel/error.ts";
import { CniError } from "../error.ts";
import type { PluginMachine } from "../host.ts";

/**
 * Removes the remains of sandboxes that ended without DEL a quarter of an hour ago: addresses, neighbours, rules and
 * records, as their DEL would. ADD does this first, since runtimes need not call GC, and since only the plugin can
 * release addresses. A sandbox that has a link by now is not removed. After a failure an ADD tries again a quarter of an
 * hour later.
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
    if (marks.length > 0) node.rare().detachMarked(node, { runDir, name }, marks, detach);
  } catch (error) {
    if (!(error instanceof DrawbridgeError) && !(error instanceof CniError)) throw error;
  }
}
