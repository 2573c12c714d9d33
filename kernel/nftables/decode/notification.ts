import { netfilterHeader, Subsystem } from "../../netlink/netfilter_message.ts";
import { type AttributeTable, string } from "../../netlink/attribute.ts";
import { type BodyLayout, decodeBody, type ReceivedMessage } from "../../netlink/message.ts";
import { familyNumbers, generationLayout, Message } from "../encode/message.ts";
import type { TableFamily, TableReference } from "../model/object.ts";

/** The content of one message of the group NFNLGRP_NFTABLES. */
export type NftablesNotification =
  /** A batch took effect. This message follows the changes of the batch. */
  | {
      readonly kind: "generation";
      readonly id: number;
      /** The process that committed it; 0 and "" when the kernel does not say. */
      readonly processId: number;
      readonly processName: string;
    }
  /** A part of a table was made, changed or deleted: the table itself, a chain, a rule, a set or its elements. */
  | { readonly kind: "change"; readonly table: TableReference };

/**
 * NFTA_TABLE_NAME, NFTA_CHAIN_TABLE, NFTA_RULE_TABLE, NFTA_SET_TABLE, NFTA_SET_ELEM_LIST_TABLE, NFTA_OBJ_TABLE and
 * NFTA_FLOWTABLE_TABLE all have this number.
 */
const tableOfAny = { table: [1, string] } as const satisfies AttributeTable;
const anyLayout = { struct: netfilterHeader, attributes: tableOfAny } as const satisfies BodyLayout;

/** NFT_MSG_TRACE is about packets, and has no table name under this number. */
const TRACE = 17;

const families = new Map<number, TableFamily>([
  [familyNumbers.inet, "inet"],
  [familyNumbers.bridge, "bridge"],
]);

/**
 * Returns the content of a notification.
 *
 * @returns undefined for a message that is not from nftables, and for a table of a family that we do not use
 * @throws DrawbridgeError ERR_NETLINK_MALFORMED for a malformed message
 */
export function parseNotification({
  type,
  body,
}: Pick<ReceivedMessage, "type" | "body">): NftablesNotification | undefined {
  if (type >> 8 !== Subsystem.NFTABLES) return undefined;
  const message = type & 0xff;
  if (message === Message.NEW_GENERATION) {
    const { id = 0, processId = 0, processName = "" } = decodeBody(generationLayout, body).attributes;
    return { kind: "generation", id, processId, processName };
  }
  if (message === TRACE) return undefined;
  const { header, attributes } = decodeBody(anyLayout, body);
  const family = families.get(header.family);
  if (family === undefined || attributes.table === undefined) return undefined;
  return { kind: "change", table: { family, name: attributes.table } };
}
