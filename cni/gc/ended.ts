import { readAttachment } from "../../attachment/attachment.ts";
import { ENDED_SECONDS, type EndedMark, forgetEnded } from "../../attachment/ended.ts";
import type { Owner } from "../../ipam/owner.ts";
import { DrawbridgeError } from "../../kernel/error.ts";
import { CniError } from "../error.ts";
import { openStore, type PluginMachine } from "../host.ts";
import { uptime } from "../status/failure_record.ts";
import { isOlderThanBoot, linksOf } from "./proof.ts";
import type { Reservation } from "../../ipam/reservation.ts";
import { findLink, withRouteSocket } from "../../kernel/route/socket.ts";
import type { ReleaseConfiguration } from "../configuration/detach_configuration.ts";
import { hostInterfaceName } from "../../attachment/names_and_macs.ts";
import type { IsValid } from "./valid_attachments.ts";

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

/**
 * Releases reservations without a record that were made before this boot and whose container the runtime does not know:
 * records do not outlive a reboot, reservations do. A reservation of this boot stays: it may be that of an ADD in
 * progress, or of another interface plugin, which has no record.
 *
 * @param recorded whether an attachment has a record
 * @param attempt runs one release and notes its error
 */
export function releaseOldReservations(
  node: PluginMachine,
  { name, ipam }: ReleaseConfiguration,
  isValid: IsValid,
  recorded: (owner: Owner) => boolean,
  attempt: (action: () => void) => void,
): void {
  const store = openStore(node, name, ipam.dataDir);
  const old = store.reservations(isOlderThanBoot(node)).filter((one) => isForgotten(one, isValid, recorded));
  if (old.length === 0) return;
  withRouteSocket(node.syscalls, (socket) => {
    for (const one of old) {
      if (one.kind === "unreadable") {
        attempt(() => store.releaseEmpty(one.address));
        continue;
      }
      const owner = one.kind === "owned" ? one.owner : { containerId: one.containerId, ifname: "eth0" };
      attempt(() => {
        // A link proves that the pod runs, whatever the clock says.
        const link = hostInterfaceName(node.sha256, owner.containerId, owner.ifname);
        if (findLink(socket, { name: link }) !== undefined) return;
        if (one.kind === "owned") store.releaseAddresses(owner, [one.address]);
        else store.release(owner);
      });
    }
  });
}

function isForgotten(one: Reservation, isValid: IsValid, recorded: (owner: Owner) => boolean): boolean {
  if (one.kind === "unreadable") return true;
  if (one.kind === "legacy") return !isValid(one.containerId, undefined);
  return !isValid(one.owner.containerId, one.owner.ifname) && !recorded(one.owner);
}
