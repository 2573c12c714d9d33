import { readAttachment } from "../../attachment/attachment_reader.ts";
import { ENDED_SECONDS, type EndedMark, forgetEnded, markEnded } from "../../attachment/ended.ts";
import type { Owner } from "../../ipam/owner.ts";
import { DrawbridgeError } from "../../kernel/error.ts";
import { CniError } from "../error.ts";
import { oldPendings } from "../delegation/delegation_file.ts";
import { openStore, type PluginMachine } from "../host.ts";
import { uptime } from "../status/failure_record.ts";
import { isOlderThanBoot, linksOf } from "./proof.ts";
import type { Reservation } from "../../ipam/reservation.ts";
import { realWaiting, type Waiting } from "../../kernel/waiting.ts";
import type { ReleaseConfiguration } from "../configuration/detach_configuration.ts";
import { hostInterfaceName } from "../../attachment/names_and_macs.ts";
import type { IsValid } from "./valid_attachments.ts";

/**
 * Milliseconds after which an ADD removes no further sandbox. The next ADDs remove the rest: a pod must not wait for
 * hundreds of others, nor for each call of a slow IPAM plugin.
 */
const LONGEST = 500;

/**
 * Removes what is left of marked sandboxes, of those whose time is over. One that cannot be removed is marked again, so
 * that it delays neither the others nor every ADD. It may have no record any more, only addresses of an IPAM plugin that
 * has refused its DEL.
 *
 * @param detach the DEL of an attachment whose namespace is gone
 */
export function detachMarked(
  node: PluginMachine,
  { runDir, name }: { readonly runDir: string; readonly name: string },
  marks: readonly EndedMark[],
  detach: (attachment: Owner) => void,
  clock: Pick<Waiting, "now"> = realWaiting,
): void {
  const seconds = uptime(node);
  if (seconds === undefined) return;
  const over = marks.filter(({ since }) => seconds - since >= ENDED_SECONDS);
  const hasLink = linksOf(node);
  const deadline = clock.now() + LONGEST;
  for (const { containerId, ifname } of over) {
    if (clock.now() >= deadline) return;
    const owner = { containerId, ifname };
    const isHeld = (): boolean =>
      oldPendings(node, runDir, name).some((one) => one.containerId === containerId && one.ifname === ifname);
    try {
      if (readAttachment(runDir, name, owner, node.files) === undefined && !isHeld())
        forgetEnded(runDir, name, owner, node.files);
      else if (!hasLink(hostInterfaceName(node.sha256, containerId, ifname))) detach(owner);
    } catch (error) {
      if (!(error instanceof DrawbridgeError) && !(error instanceof CniError)) throw error;
      forgetEnded(runDir, name, owner, node.files);
      markEnded(runDir, name, owner, { bootId: node.bootId(), seconds }, node.files);
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
  const hasLink = linksOf(node);
  for (const one of old) {
    attempt(() => {
      if (one.kind === "unreadable") return store.releaseEmpty(one.address);
      const owner = one.kind === "owned" ? one.owner : { containerId: one.containerId, ifname: "eth0" };
      // A link proves that the pod runs, whatever the clock says.
      if (hasLink(hostInterfaceName(node.sha256, owner.containerId, owner.ifname))) return;
      if (one.kind === "owned") store.releaseAddresses(owner, [one.address]);
      else store.release(owner);
    });
  }
}

function isForgotten(one: Reservation, isValid: IsValid, recorded: (owner: Owner) => boolean): boolean {
  if (one.kind === "unreadable") return true;
  if (one.kind === "legacy") return !isValid(one.containerId, undefined);
  return !isValid(one.owner.containerId, one.owner.ifname) && !recorded(one.owner);
}
