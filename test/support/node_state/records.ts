import type { AttachmentRecord } from "../../../attachment/attachment.ts";
import { parseCidr } from "../../../kernel/ip/cidr.ts";
import { parseMac } from "../../../kernel/ip/mac.ts";
import { attachmentRecord } from "../cni/attachment_record.ts";

/**
 * Returns the record of a pod of the node with 10.244.1.0/24 and fd00:244:1::/64.
 *
 * @param number of its addresses, from 2 to 9
 */
export function recordOf(
  number: number,
  host: { readonly mtu?: number; readonly routes?: readonly string[] } = {},
  addresses: readonly string[] = [`10.244.1.${number}/32`, `fd00:244:1::${number}/128`],
): AttachmentRecord {
  return attachmentRecord({
    bridge: "cni0",
    containerId: `c${number}`,
    pod: { namespace: "default", name: `web-${number}`, uid: `u${number}` },
    hostInterface: `dbv00000000000${number}`,
    hostMac: parseMac(`ae:00:00:00:00:0${number}`),
    mac: parseMac(`0a:58:0a:f4:01:0${number}`),
    addresses: addresses.map((text) => parseCidr(text)),
    portMappings: [],
    host: {
      bridgeMac: parseMac("ce:00:00:00:00:01"),
      mtu: host.mtu ?? 1450,
      bridgeAddresses: [parseCidr("10.244.1.1/24"), parseCidr("fd00:244:1::1/64")],
      routes: (host.routes ?? []).map((text) => parseCidr(text)),
      hairpin: true,
      bypass: true,
      isMacRequested: false,
    },
  });
}

/** The records of two pods. */
export const RECORDS: readonly AttachmentRecord[] = [recordOf(2), recordOf(3)];
