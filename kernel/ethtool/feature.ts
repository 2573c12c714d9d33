import { flag, list, nested, string, u32 } from "../netlink/attribute.ts";
import { type BodyLayout, decodeBody, type Request, request } from "../netlink/message.ts";
import { type EthtoolSocket, genericHeader } from "./family.ts";

const ETHTOOL_MSG_FEATURES_GET = 11;
const ETHTOOL_MSG_FEATURES_SET = 12;
const ETHTOOL_FLAG_OMIT_REPLY = 2;
const VERSION = 1;

/** ETHTOOL_A_HEADER_*, ETHTOOL_A_BITSET_* and ETHTOOL_A_FEATURES_* (include/uapi/linux/ethtool_netlink.h). */
const header = { index: [1, u32], name: [2, string], flags: [3, u32] } as const;
const bit = { index: [1, u32], name: [2, string], value: [3, flag] } as const;
const bitset = { noMask: [1, flag], bits: [3, nested({ bits: [1, nested(bit)] } as const)] } as const;
const answeredBitset = { bits: [3, list(1, nested(bit))] } as const;

const layout = {
  struct: genericHeader,
  attributes: { header: [1, nested(header)], wanted: [3, nested(bitset)] },
} as const satisfies BodyLayout;

const answerLayout = {
  struct: genericHeader,
  attributes: { active: [4, nested(answeredBitset)] },
} as const satisfies BodyLayout;

/** The feature by which a device leaves the checksums of its packets to the next device (`ethtool -k`). */
export const TX_CHECKSUM_OFFLOAD = "tx-checksum-ip-generic";

/**
 * Tells whether a feature of a device is in effect, whatever was requested.
 *
 * @throws NetlinkError ENODEV when the device is gone, EOPNOTSUPP when it has no features
 */
export function isFeatureActive({ socket, type }: EthtoolSocket, index: number, feature: string): boolean {
  const kind = { type, flags: 0, layout, isAnswered: true };
  const [answer] = socket.request(
    request(
      `read feature ${feature} of link ${index}`,
      kind,
      { command: ETHTOOL_MSG_FEATURES_GET, version: VERSION },
      { header: { index } },
    ),
  );
  const active = answer === undefined ? undefined : decodeBody(answerLayout, answer.body).attributes.active;
  // The kernel lists only the active ones (ETHTOOL_A_BITSET_NOMASK).
  return active?.bits?.some(({ name }) => name === feature) ?? false;
}

/** Returns the request to switch a feature off. {@link isFeatureActive} tells whether the device did so. */
export function switchFeatureOff({ type }: EthtoolSocket, index: number, feature: string): Request {
  return request(
    `switch feature ${feature} of link ${index} off`,
    { type, flags: 0, layout },
    { command: ETHTOOL_MSG_FEATURES_SET, version: VERSION },
    // A bit listed without a value is to be off; bits that are not listed stay as they are.
    { header: { index, flags: ETHTOOL_FLAG_OMIT_REPLY }, wanted: { bits: { bits: { name: feature } } } },
  );
}
