import { netfilterHeader, Subsystem } from "../../netlink/netfilter_message.ts";
import { type AttributeTable, be32, be64, bytes, nested, string } from "../../netlink/attribute.ts";
import { type BodyLayout, decodeBody, type ReceivedMessage } from "../../netlink/message.ts";
import { type IpHeader, parseIpHeader } from "../../packets/ip_header.ts";
import { verdictAttributes } from "../encode/instruction.ts";
import { verdictCodes } from "../encode/lowering.ts";
import { familyName } from "./overview.ts";

/** NFT_MSG_TRACE */
const TRACE = 17;
/** NFT_TRACETYPE_POLICY */
const POLICY = 1;

/** NFTA_TRACE_* (include/uapi/linux/netfilter/nf_tables.h). */
const traceAttributes = {
  table: [1, string],
  chain: [2, string],
  rule: [3, be64],
  type: [4, be32],
  verdict: [5, nested(verdictAttributes)],
  id: [6, be32],
  networkHeader: [8, bytes],
  transportHeader: [9, bytes],
  output: [12, be32],
  policy: [16, be32],
} as const satisfies AttributeTable;
const layout = { struct: netfilterHeader, attributes: traceAttributes } as const satisfies BodyLayout;

/** A rule, an end of a chain or a policy that a traced packet has met (group NFNLGRP_NFTRACE). */
export interface TraceEvent {
  /** The kernel's number of the packet, which another packet may get later. */
  readonly id: number;
  readonly family: string;
  readonly table: string;
  readonly chain: string;
  /** The rule by its number in `nft -a list`; undefined for a policy. */
  readonly rule: bigint | undefined;
  /** Also of a rule that rejects. */
  readonly isDrop: boolean;
  /** The packet's headers, which the kernel reports once for each base chain. */
  readonly header: IpHeader | undefined;
  /** The index of the link by which it leaves; undefined in hooks that do not know it. */
  readonly output: number | undefined;
}

/**
 * Returns a notification about a traced packet; undefined for any other message.
 *
 * @throws DrawbridgeError ERR_NETLINK_MALFORMED for a malformed message
 */
export function parseTrace({ type, body }: Pick<ReceivedMessage, "type" | "body">): TraceEvent | undefined {
  if (type >> 8 !== Subsystem.NFTABLES || (type & 0xff) !== TRACE) return undefined;
  const { header, attributes } = decodeBody(layout, body);
  const { id = 0, table = "", chain = "", rule, verdict, policy, output } = attributes;
  const code = attributes.type === POLICY ? policy : verdict?.code;
  return {
    id,
    family: familyName(header.family),
    table,
    chain,
    rule,
    isDrop: code === verdictCodes.drop,
    header: headerOf(attributes.networkHeader, attributes.transportHeader),
    output,
  };
}

/** The kernel copies 40 bytes from the IP header on, and 20 of what follows it: ports of IPv4 are in both. */
function headerOf(network: Uint8Array | undefined, transport: Uint8Array | undefined): IpHeader | undefined {
  if (network === undefined) return undefined;
  return parseIpHeader(Uint8Array.of(...network, ...(transport ?? [])));
}
