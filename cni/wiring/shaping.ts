import { delayDeviceOf, type Sha256 } from "../../attachment/names_and_macs.ts";
import type { Owner } from "../../ipam/owner.ts";
import { DrawbridgeError } from "../../kernel/error.ts";
import type { NetlinkSocket } from "../../kernel/netlink/socket.ts";
import { changeLink, getLink } from "../../kernel/route/link.ts";
import { describedLink } from "../../kernel/route/socket.ts";
import { createDelayDevice, type DelayDevice } from "../../kernel/traffic_control/delay_device.ts";
import { addClassifiers, setTokenBucket, type TokenBucket } from "../../kernel/traffic_control/queueing_discipline.ts";
import { redirectReceived } from "../../kernel/traffic_control/redirect.ts";
import { type Limits, tokenBucket } from "../configuration/bandwidth.ts";
import { carryOut, type Step } from "./steps.ts";

/** The limits of an attachment's bandwidth. They are set only on the node's side: a pod can change its own end. */
export interface Shaping {
  /** The bucket on the host end, which sends what the pod receives. */
  readonly toPod: TokenBucket | undefined;
  /** A separate device, which sends everything that the host end receives, since only sending can be delayed. */
  readonly fromPod: { readonly device: DelayDevice; readonly bucket: TokenBucket } | undefined;
}

/** Decides the limits of an attachment. @param mtu bytes, of the pod's link */
export function decideShaping(limits: Limits, owner: Owner, mtu: number, sha256: Sha256): Shaping {
  const { ingress, egress } = limits;
  return {
    toPod: ingress === undefined ? undefined : tokenBucket(ingress, mtu),
    fromPod:
      egress === undefined ? undefined : { device: delayDeviceOf(sha256, owner), bucket: tokenBucket(egress, mtu) },
  };
}

/**
 * Limits a pod's bandwidth, before its end is up.
 *
 * @param hostIndex the host end's
 * @throws DrawbridgeError ERR_FOREIGN_OBJECT when the delay device's name is taken, NetlinkError when the kernel refuses
 */
export function shape(
  socket: NetlinkSocket,
  shaping: Shaping,
  { mtu, alias }: { readonly mtu: number; readonly alias: string },
  hostIndex: number,
): void {
  const deviceIndex = makeDelayDevice(socket, shaping, mtu);
  carryOut(socket, shapingSteps(shaping, alias, hostIndex, deviceIndex));
}

/**
 * Makes the delay device if the pod's sending is limited.
 *
 * @returns its index
 * @throws DrawbridgeError ERR_FOREIGN_OBJECT when its name is taken, NetlinkError when the kernel refuses
 */
function makeDelayDevice(socket: NetlinkSocket, { fromPod }: Shaping, mtu: number): number | undefined {
  if (fromPod === undefined) return undefined;
  const { device } = fromPod;
  const [created, made] = socket.batch([createDelayDevice(device, mtu), getLink({ name: device.name })]);
  if (created?.error?.errnoName === "EEXIST") {
    throw new DrawbridgeError(
      "ERR_FOREIGN_OBJECT",
      `${device.name} already exists; expected none, since egressRate needs a device of that name: call DEL, and remove the device if it is still there`,
    );
  }
  if (created?.error !== undefined) throw created.error;
  return describedLink(made).index;
}

/**
 * Returns the requests in the node's namespace that set the limits after the host end exists and before the pod's end
 * is up, so that no packet passes unlimited. Traffic control identifies links only by their indexes.
 *
 * @param hostIndex the host end's
 * @param deviceIndex the delay device's; undefined when there is none
 */
export function shapingSteps(
  shaping: Shaping,
  alias: string,
  hostIndex: number,
  deviceIndex: number | undefined,
): readonly Step[] {
  const { toPod, fromPod } = shaping;
  const steps: Step[] = [];
  if (fromPod !== undefined && deviceIndex !== undefined) {
    const device = { index: deviceIndex };
    steps.push(
      { request: changeLink(device, { linkLocalAddress: false }), tolerates: "EAFNOSUPPORT" },
      { request: setTokenBucket(deviceIndex, fromPod.bucket) },
      { request: changeLink(device, { up: true, alias }) },
      { request: addClassifiers(hostIndex) },
      { request: redirectReceived(hostIndex, deviceIndex) },
    );
  }
  if (toPod !== undefined) steps.push({ request: setTokenBucket(hostIndex, toPod) });
  return steps;
}
