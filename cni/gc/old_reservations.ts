import type { Owner } from "../../ipam/owner.ts";
import type { Reservation } from "../../ipam/reservation.ts";
import { findLink, openRouteSocket } from "../../kernel/route/socket.ts";
import type { ReleaseConfiguration } from "../configuration/detach_configuration.ts";
import { hostInterfaceName } from "../../attachment/names_and_macs.ts";
import { type PluginMachine, openStore } from "../host.ts";
import { isOlderThanBoot } from "./proof.ts";
import type { IsValid } from "./valid_attachments.ts";

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
  const socket = openRouteSocket(node.syscalls);
  try {
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
  } finally {
    socket.close();
  }
}

function isForgotten(one: Reservation, isValid: IsValid, recorded: (owner: Owner) => boolean): boolean {
  if (one.kind === "unreadable") return true;
  if (one.kind === "legacy") return !isValid(one.containerId, undefined);
  return !isValid(one.owner.containerId, one.owner.ifname) && !recorded(one.owner);
}
