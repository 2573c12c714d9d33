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

/** A table as observed in the kernel: without its meaning, but enough to compare it with what was written. */
export interface TableState extends TableHead {
  readonly chains: ReadonlyMap<string, ChainState>;
  readonly sets: ReadonlyMap<string, SetState>;
}

export interface ChainState {
  readonly attributes: AttributeValues<typeof chainAttributes>;
  readonly rules: readonly RuleState[];
}

export interface RuleState {
  readonly handle: bigint;
  readonly comment: string | undefined;
  readonly instructions: readonly Instruction[];
}

export type SetState = AttributeValues<typeof setAttributes>;

const SET_ANONYMOUS = 1;
/** NFT_CHAIN_BINDING: a block of a single rule (`jump { accept }`), which is made and deleted with the rule. */
const CHAIN_OF_RULE = 4;

/**
 * Reads a table with its chains, rules and sets. The parts are separate lists, so a change in between may show in only
 * some of them: compare the generation before and after.
 *
 * @throws NetlinkError ENOENT when there is no such table
 */
export function readTable(socket: NetlinkSocket, reference: TableReference): TableState {
  const where = `${reference.family} ${reference.name}`;
  return {
    ...readTableHead(socket, reference),
    chains: readChains(socket, reference, where),
    sets: new Map(readSets(socket, reference).map((set) => [set.name ?? "", set])),
  };
}

/** Reads a table's own data. @throws NetlinkError ENOENT when there is no such table */
export function readTableHead(socket: NetlinkSocket, { family, name }: TableReference): TableHead {
  const kind = { message: Message.GET_TABLE, family, layout: tableLayout };
  const [found] = socket.request(nftablesRequest(`get table ${family} ${name}`, kind, { name }));
  const { flags = 0, userdata, owner } = found === undefined ? {} : decodeBody(tableLayout, found.body).attributes;
  return { family, name, flags, comment: commentOf(userdata), owner };
}

function readChains(socket: NetlinkSocket, reference: TableReference, where: string): ReadonlyMap<string, ChainState> {
  const rules = readRules(socket, reference, where);
  return new Map(
    readChainAttributes(socket, reference).map((attributes) => {
      const { name = "" } = attributes;
      return [name, { attributes, rules: rules.get(name) ?? [] }];
    }),
  );
}

/** Reads the chains of a table without their rules and without the chains of single rules. @throws NetlinkError */
export function readChainAttributes(
  socket: NetlinkSocket,
  { family, name: table }: TableReference,
): readonly ChainState["attributes"][] {
  // The kernel lists the chains of all tables of a family, whatever the request names.
  const kind = { message: Message.GET_CHAIN, family, layout: chainLayout };
  return socket
    .dump(nftablesRequest(`list chains of ${family} ${table}`, kind, {}))
    .map((message) => decodeBody(chainLayout, message.body).attributes)
    .filter(
      ({ flags = 0, ...chain }) => chain.table === table && chain.name !== undefined && (flags & CHAIN_OF_RULE) === 0,
    );
}

/** Reads the rules of only one chain; none when there is no such chain. @throws NetlinkError */
export function readChainRules(socket: NetlinkSocket, reference: TableReference, chain: string): readonly RuleState[] {
  const where = `${reference.family} ${reference.name} ${chain}`;
  return readRules(socket, reference, where, { chain }).get(chain) ?? [];
}

function readRules(
  socket: NetlinkSocket,
  { family, name: table }: TableReference,
  where: string,
  of: { readonly chain?: string } = {},
): ReadonlyMap<string, readonly RuleState[]> {
  const kind = { message: Message.GET_RULE, family, layout: ruleLayout };
  const rules = new Map<string, RuleState[]>();
  for (const message of socket.dump(nftablesRequest(`list rules of ${where}`, kind, { table, ...of }))) {
    const { attributes } = decodeBody(ruleLayout, message.body);
    if (attributes.table !== table || attributes.chain === undefined) continue;
    const list = rules.get(attributes.chain) ?? [];
    rules.set(attributes.chain, list);
    list.push({
      handle: attributes.handle ?? 0n,
      comment: commentOf(attributes.userdata),
      instructions: attributes.instructions ?? [],
    });
  }
  return rules;
}

/** Reads the sets of a table without those of single rules. @throws NetlinkError */
export function readSets(socket: NetlinkSocket, { family, name: table }: TableReference): readonly SetState[] {
  const kind = { message: Message.GET_SET, family, layout: setLayout };
  return socket
    .dump(nftablesRequest(`list sets of ${family} ${table}`, kind, { table }))
    .map((message) => decodeBody(setLayout, message.body).attributes)
    .filter(({ flags = 0, ...set }) => set.table === table && set.name !== undefined && (flags & SET_ANONYMOUS) === 0);
}
