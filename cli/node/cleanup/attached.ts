import { createHash } from "node:crypto";
import { delayDeviceMac, displayName, hostMac } from "../../../attachment/names_and_macs.ts";
import { isDelayDevice } from "../../../kernel/traffic_control/delay_device.ts";
import type { CheckedLink } from "../../../policyd/problems/check.ts";
import type { Inventory } from "./inventory.ts";

const HOST_INTERFACE = /^dbv[0-9a-f]{12}$/;
const DELAY_DEVICE = /^dbi[0-9a-f]{12}$/;

/** Returns the host ends of pods' links: their MAC address follows from their name, unlike that of others' links. */
export function hostLinks({ links }: Pick<Inventory, "links">): readonly CheckedLink[] {
  return links.filter(
    ({ name, kind, mac }) => kind === "veth" && HOST_INTERFACE.test(name) && mac === hostMac(sha256, name),
  );
}

/** Returns the devices that delay what pods with a limited bandwidth send. */
export function delayDevices({ links }: Pick<Inventory, "links">): readonly CheckedLink[] {
  return links.filter(
    (link) =>
      DELAY_DEVICE.test(link.name) && isDelayDevice(link, { name: link.name, mac: delayDeviceMac(sha256, link.name) }),
  );
}

/**
 * Returns the pods that a runtime still has to detach by our plugin: those whose link exists. DEL removes a link, and
 * so does the kernel with the pod's network namespace, whoever removed that.
 *
 * @returns the pods' names, or a link's where no record names its pod
 */
export function attachedPods(inventory: Pick<Inventory, "links" | "records">): readonly string[] {
  return hostLinks(inventory).map(({ name }) => {
    const record = inventory.records.find(({ hostInterface }) => hostInterface === name);
    return record === undefined ? name : displayName(record);
  });
}

export function sha256(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}
