import type { AttributeValues } from "../../netlink/attribute.ts";
import { decodeBody } from "../../netlink/message.ts";
import type { NetlinkSocket } from "../../netlink/socket.ts";
import type { Instruction } from "../encode/instruction.ts";
import {
  chainAttributes,
  chainLayout,
  Message,
  nftablesRequest,
  ruleLayout,
  setAttributes,
  setLayout,
  tableLayout,
} from "../encode/message.ts";
import type { TableReference } from "../model/object.ts";
import { commentOf } from "../encode/userdata.ts";

/** A table's own data. */
export interface TableHead extends TableReference {
  readonly flags: number;
  readonly comment: string | undefined;
  /** The port id of the netlink socket that owns it. */
  readonly owner: number | undefined;
}

/** The attributes of a chain as observed in the kernel. */
export type ChainState = AttributeValues<typeof chainAttributes>;

export interface RuleState {
  readonly instructions: readonly Instruction[];
}

export type SetState = AttributeValues<typeof setAttributes>;

const SET_ANONYMOUS = 1;
/** NFT_CHAIN_BINDING: a block of a single rule (`jump { accept }`), which is made and deleted with the rule. */
const CHAIN_OF_RULE = 4;

/** Reads a table's own data. @throws NetlinkError ENOENT when there is no such table */
export function readTableHead(socket: NetlinkSocket, { family, name }: TableReference): TableHead {
  const kind = { message: Message.GET_TABLE, family, layout: tableLayout };
  const [found] = socket.request(nftablesRequest(`get table ${family} ${name}`, kind, { name }));
  const { flags = 0, userdata, owner } = found === undefined ? {} : decodeBody(tableLayout, found.body).attributes;
  return { family, name, flags, comment: commentOf(userdata), owner };
}

/** Reads the chains of a table without their rules and without the chains of single rules. @throws NetlinkError */
export function readChains(socket: NetlinkSocket, { family, name: table }: TableReference): readonly ChainState[] {
  // The kernel lists the chains of all tables of a family, whatever the request names.
  const kind = { message: Message.GET_CHAIN, family, layout: chainLayout };
  return socket
    .dump(nftablesRequest(`list chains of ${family} ${table}`, kind, {}))
    .map((message) => decodeBody(chainLayout, message.body).attributes)
    .filter(
      ({ flags = 0, ...chain }) => chain.table === table && chain.name !== undefined && (flags & CHAIN_OF_RULE) === 0,
    );
}

/** Reads the rules of a chain; none when there is no such chain. @throws NetlinkError */
export function readRules(
  socket: NetlinkSocket,
  { family, name: table }: TableReference,
  chain: string,
): readonly RuleState[] {
  const kind = { message: Message.GET_RULE, family, layout: ruleLayout };
  return socket
    .dump(nftablesRequest(`list rules of ${family} ${table} ${chain}`, kind, { table, chain }))
    .map((message) => decodeBody(ruleLayout, message.body).attributes)
    .filter((rule) => rule.table === table && rule.chain === chain)
    .map(({ instructions = [] }) => ({ instructions }));
}

/** Reads the sets of a table without those of single rules. @throws NetlinkError */
export function readSets(socket: NetlinkSocket, { family, name: table }: TableReference): readonly SetState[] {
  const kind = { message: Message.GET_SET, family, layout: setLayout };
  return socket
    .dump(nftablesRequest(`list sets of ${family} ${table}`, kind, { table }))
    .map((message) => decodeBody(setLayout, message.body).attributes)
    .filter(({ flags = 0, ...set }) => set.table === table && set.name !== undefined && (flags & SET_ANONYMOUS) === 0);
}
