import type { FeatureName } from "../../missing_feature.ts";
import { messageType, netfilterHeader, Subsystem } from "../../netlink/netfilter_message.ts";
import {
  type AttributeTable,
  type AttributeType,
  type AttributeValues,
  be32,
  be64,
  bytes,
  list,
  nested,
  string,
} from "../../netlink/attribute.ts";
import { type BodyLayout, type Request, request } from "../../netlink/message.ts";
import { dataAttributes, instructionType } from "./instruction.ts";

/** NFPROTO_* (include/uapi/linux/netfilter.h). */
export const familyNumbers = { inet: 1, ip: 2, ip6: 10, bridge: 7 } as const;

/** The families of the tables that are read, of any program. */
export type ReadFamily = keyof typeof familyNumbers;

/** NFT_MSG_* (include/uapi/linux/netfilter/nf_tables.h). */
export const Message = {
  NEW_TABLE: 0,
  GET_TABLE: 1,
  DELETE_TABLE: 2,
  NEW_CHAIN: 3,
  GET_CHAIN: 4,
  DELETE_CHAIN: 5,
  NEW_RULE: 6,
  GET_RULE: 7,
  DELETE_RULE: 8,
  NEW_SET: 9,
  GET_SET: 10,
  DELETE_SET: 11,
  NEW_ELEMENTS: 12,
  GET_ELEMENTS: 13,
  DELETE_ELEMENTS: 14,
  NEW_GENERATION: 15,
  GET_GENERATION: 16,
} as const;

/** NFTA_LIST_ELEM: the number of each item of a list. */
const ITEM = 1;

/** NFTA_TABLE_* */
export const tableAttributes = {
  name: [1, string],
  flags: [2, be32],
  userdata: [6, bytes],
  owner: [7, be32],
} as const satisfies AttributeTable;

/** NFTA_HOOK_*; the priority is a signed number in network order. */
const hookAttributes = { number: [1, be32], priority: [2, be32] } as const satisfies AttributeTable;

/** NFTA_CHAIN_* */
export const chainAttributes = {
  table: [1, string],
  name: [3, string],
  hook: [4, nested(hookAttributes)],
  policy: [5, be32],
  type: [7, string],
  flags: [10, be32],
} as const satisfies AttributeTable;

/** NFTA_RULE_* */
export const ruleAttributes = {
  table: [1, string],
  chain: [2, string],
  instructions: [4, list(ITEM, instructionType)],
  userdata: [7, bytes],
} as const satisfies AttributeTable;

/** NFTA_SET_FIELD_* */
const fieldAttributes = { length: [1, be32] } as const satisfies AttributeTable;

/** NFTA_SET_DESC_* */
const descriptionAttributes = {
  size: [1, be32],
  fields: [2, list(ITEM, nested(fieldAttributes))],
} as const satisfies AttributeTable;

/** NFTA_SET_* */
export const setAttributes = {
  table: [1, string],
  name: [2, string],
  flags: [3, be32],
  keyType: [4, be32],
  keyLength: [5, be32],
  dataType: [6, be32],
  dataLength: [7, be32],
  description: [9, nested(descriptionAttributes)],
  id: [10, be32],
  timeout: [11, be64],
  collection: [12, be32],
  userdata: [13, bytes],
  instruction: [17, instructionType],
} as const satisfies AttributeTable;

/** NFTA_SET_ELEM_* */
export const elementAttributes = {
  key: [1, nested(dataAttributes)],
  keyEnd: [10, nested(dataAttributes)],
  data: [2, nested(dataAttributes)],
  flags: [3, be32],
  timeout: [4, be64],
  expiration: [5, be64],
  userdata: [6, bytes],
  instruction: [7, instructionType],
} as const satisfies AttributeTable;

/** Attributes that are already encoded. */
const encoded: AttributeType<Uint8Array> = { ...bytes, nested: {} };

/** NFTA_SET_ELEM_LIST_*. The elements are encoded one by one, to know when a message is full. */
export const elementListAttributes = {
  table: [1, string],
  set: [2, string],
  setId: [4, be32],
  elements: [3, encoded],
} as const satisfies AttributeTable;

/** NFTA_GEN_* */
export const generationAttributes = {
  id: [1, be32],
  processId: [2, be32],
  processName: [3, string],
} as const satisfies AttributeTable;

export const tableLayout = { struct: netfilterHeader, attributes: tableAttributes } as const satisfies BodyLayout;
export const chainLayout = { struct: netfilterHeader, attributes: chainAttributes } as const satisfies BodyLayout;
export const ruleLayout = { struct: netfilterHeader, attributes: ruleAttributes } as const satisfies BodyLayout;
export const setLayout = { struct: netfilterHeader, attributes: setAttributes } as const satisfies BodyLayout;
export const elementLayout = {
  struct: netfilterHeader,
  attributes: elementListAttributes,
} as const satisfies BodyLayout;
export const generationLayout = {
  struct: netfilterHeader,
  attributes: generationAttributes,
} as const satisfies BodyLayout;

/** Returns one nftables request. `flags` are NLM_F_*, added to REQUEST. */
export function nftablesRequest<A extends AttributeTable>(
  operation: string,
  kind: {
    readonly message: number;
    readonly flags?: number;
    readonly family: ReadFamily | undefined;
    readonly layout: BodyLayout<typeof netfilterHeader, A>;
    readonly needs?: FeatureName | undefined;
  },
  attributes: AttributeValues<A>,
): Request {
  const { message, flags = 0, layout, needs } = kind;
  return request(
    operation,
    { type: messageType(Subsystem.NFTABLES, message), flags, layout, needs },
    { family: kind.family === undefined ? 0 : familyNumbers[kind.family] },
    attributes,
  );
}

/** NFNL_MSG_BATCH_BEGIN and …_END: everything between them takes effect as one. */
const batchLayout = { struct: netfilterHeader, attributes: {} } as const satisfies BodyLayout;

/** Begins a batch. A commit that fails as a whole is reported for this request. */
export function batchBegin(): Request {
  return request("nftables batch", { type: 16, flags: 0, layout: batchLayout }, { resourceId: Subsystem.NFTABLES }, {});
}

export function batchEnd(): Request {
  return request(
    "nftables commit",
    { type: 17, flags: 0, layout: batchLayout },
    { resourceId: Subsystem.NFTABLES },
    {},
  );
}
