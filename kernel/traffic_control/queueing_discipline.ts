import { type AttributeTable, type AttributeType, u32, u64 } from "../netlink/attribute.ts";
import { attributeBytes, decodeStruct, encodeStruct, MessageFlag, type Request, request } from "../netlink/message.ts";
import { CLASSIFIERS, ROOT, trafficControlLayout } from "./message.ts";

const RTM_NEWQDISC = 36;
const RTM_DELQDISC = 37;

/** The discipline that holds classifiers of received and sent frames. */
const KIND_CLASSIFIERS = "clsact";

/** Returns the request to add a place for classifiers to a link (sch_ingress); EEXIST when it has one. */
export function addClassifiers(index: number): Request {
  return request(
    `make a place for classifiers on link ${index} (kernel options NET_SCH_INGRESS, NET_CLS_ACT)`,
    { type: RTM_NEWQDISC, flags: MessageFlag.CREATE | MessageFlag.EXCL, layout: trafficControlLayout },
    { index, parent: CLASSIFIERS },
    { kind: KIND_CLASSIFIERS },
  );
}

/** Returns the request to delete a link's place for classifiers with its filters; ENOENT or EINVAL when it has none. */
export function deleteClassifiers(index: number): Request {
  return request(
    `remove the classifiers of link ${index}`,
    { type: RTM_DELQDISC, flags: 0, layout: trafficControlLayout },
    { index, parent: CLASSIFIERS },
    {},
  );
}

const KIND_TOKEN_BUCKET = "tbf";
/** TC_LINKLAYER_ETHERNET: the kernel computes with the rate itself and needs no rate table. */
const LINK_LAYER_ETHERNET = 1;
const LARGEST_U32 = 0xffff_ffff;

/** struct tc_tbf_qopt: two struct tc_ratespec, then three numbers. */
const parametersLayout = {
  cellLog: "u8",
  linkLayer: "u8",
  overhead: "u16",
  cellAlign: "u16",
  smallestPacket: "u16",
  rate: "u32",
  peakCellLog: "u8",
  peakLinkLayer: "u8",
  peakOverhead: "u16",
  peakCellAlign: "u16",
  peakSmallestPacket: "u16",
  peakRate: "u32",
  limit: "u32",
  buffer: "u32",
  peakBuffer: "u32",
} as const;

const parameters: AttributeType<{ readonly rate: number; readonly limit: number; readonly buffer: number }> = {
  encode: (writer, { rate, limit, buffer }) =>
    encodeStruct(writer, parametersLayout, { linkLayer: LINK_LAYER_ETHERNET, rate, limit, buffer }),
  decode: (payload) => decodeStruct(parametersLayout, payload),
};

/** TCA_TBF_*. */
const attributes = {
  parameters: [1, parameters],
  rate: [4, u64],
  burst: [6, u32],
} as const satisfies AttributeTable;

/** A token bucket. It counts bytes of whole Ethernet frames. */
export interface TokenBucket {
  /** In bytes per second. */
  readonly rate: number;
  /** The bytes that may pass at once after a pause. A larger frame is dropped, or split if it has many segments. */
  readonly burst: number;
  /** The bytes that may wait. */
  readonly limit: number;
}

/**
 * Returns the request to limit all that a link sends by a token bucket, which replaces its former discipline (sch_tbf).
 *
 * Segments that the sender left to the network card (GSO) count as the frames that they become. Such a packet that is
 * larger than the burst is split first (tbf_segment), so that it waits like any other.
 *
 * @throws RangeError when rate, burst or limit is not an integer within the kernel's bounds
 */
export function setTokenBucket(index: number, bucket: TokenBucket): Request {
  if (!isPositive(bucket.rate, Number.MAX_SAFE_INTEGER)) throw new RangeError(`rate: ${bucket.rate} bytes per second`);
  if (!isPositive(bucket.burst, LARGEST_U32)) throw new RangeError(`burst: ${bucket.burst} bytes`);
  if (!isPositive(bucket.limit, LARGEST_U32)) throw new RangeError(`limit: ${bucket.limit} bytes`);
  return request(
    `limit what link ${index} sends to ${bucket.rate} bytes/s (kernel option NET_SCH_TBF)`,
    { type: RTM_NEWQDISC, flags: MessageFlag.CREATE | MessageFlag.REPLACE, layout: trafficControlLayout },
    { index, parent: ROOT },
    {
      kind: KIND_TOKEN_BUCKET,
      options: attributeBytes(attributes, {
        parameters: { rate: Math.min(bucket.rate, LARGEST_U32), limit: bucket.limit, buffer: 0 },
        rate: BigInt(bucket.rate),
        // In bytes, because the ticks of the parameters are too coarse for a fast link. It overrides them.
        burst: bucket.burst,
      }),
    },
  );
}

function isPositive(value: number, most: number): boolean {
  return Number.isInteger(value) && value > 0 && value <= most;
}
