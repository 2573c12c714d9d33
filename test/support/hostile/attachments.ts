import type { AttachmentRecord } from "../../../attachment/attachment.ts";
import { addressPlus, parseAddress } from "../../../kernel/ip/address.ts";
import { macFromBytes } from "../../../kernel/ip/mac.ts";
import { parseCidr } from "../../../kernel/ip/cidr.ts";
import { attachmentRecord, RECORDED_HOST } from "../cni/attachment_record.ts";

const BASES = [parseAddress("10.128.0.0"), parseAddress("fd00:128::")];

/** The bridge's addresses, in whose networks all pods are. */
const BRIDGE = [parseCidr("10.128.255.254/16"), parseCidr("fd00:128::ffff/64")];

type Placement = (text: string, record: AttachmentRecord) => AttachmentRecord;

/** Returns the first 15 bytes, so that a name is refused for its content and not for its length. */
const short = (text: string): string => Buffer.from(text).subarray(0, 15).toString();

const podOf = ({ pod }: AttachmentRecord) => pod ?? { namespace: "default", name: "web-0", uid: "" };

/** Every place of an attachment record that holds a text. */
const PLACEMENTS: readonly Placement[] = [
  (hostInterface, record) => ({ ...record, hostInterface }),
  (text, record) => ({ ...record, hostInterface: short(`dbv${text}`) }),
  (text, record) => ({ ...record, hostInterface: short(`dbv${text.replaceAll(/[\s/:%\p{Cc}]/gu, "")}`) }),
  (containerId, record) => ({ ...record, containerId }),
  (ifname, record) => ({ ...record, ifname }),
  (text, record) => ({ ...record, ifname: short(text.replaceAll(/[\s/:%\p{Cc}]/gu, "")) }),
  (name, record) => ({ ...record, pod: { ...podOf(record), name } }),
  (namespace, record) => ({ ...record, pod: { ...podOf(record), namespace } }),
  (uid, record) => ({ ...record, pod: { ...podOf(record), uid } }),
  (network, record) => ({ ...record, network }),
  (bridge, record) => ({ ...record, bridge }),
  (dataDir, record) => ({ ...record, dataDir }),
  (path, record) => ({ ...record, netns: { ...record.netns, path } }),
  (inode, record) => ({ ...record, netns: { ...record.netns, inode } }),
  (bootId, record) => ({ ...record, bootId }),
];

/** Returns an attachment with one such text, and with addresses, MAC and interface that no other index has. */
export function hostileAttachment(text: string, index: number): AttachmentRecord {
  const placement = PLACEMENTS[index % PLACEMENTS.length];
  if (placement === undefined) throw new RangeError("no placement");
  return placement(text, plainAttachment(index));
}

/** Returns the attachment of {@link hostileAttachment} without the hostile text. */
export function plainAttachment(index: number): AttachmentRecord {
  const addresses = BASES.map((base) => {
    const address = addressPlus(base, BigInt(index));
    if (address === undefined) throw new RangeError(`no address ${index}`);
    return { address, prefixLength: base === BASES[0] ? 32 : 128 };
  });
  return attachmentRecord({
    containerId: `container-${index}`,
    hostInterface: `dbv${index.toString(16).padStart(12, "0")}`,
    mac: macFromBytes(Uint8Array.of(2, 0, 0, 0, index >> 8, index & 0xff)),
    addresses,
    portMappings: [],
    host: { ...RECORDED_HOST, bridgeAddresses: BRIDGE },
  });
}
