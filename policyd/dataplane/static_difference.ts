import { requestsOf } from "../../kernel/nftables/change.ts";
import { chainLayout, setLayout } from "../../kernel/nftables/message.ts";
import type { Chain, SetDefinition, Table } from "../../kernel/nftables/object.ts";
import type { ChainState, SetState, TableHead } from "../../kernel/nftables/state.ts";
import { decodeBody } from "../../kernel/netlink/message.ts";
import { isOurs } from "./own_comment.ts";

/**
 * In what a table of the kernel is none that we could go on with, in words; what it holds is not looked at. One of another
 * version is.
 */
export function headDifferences(table: Table, state: TableHead): readonly string[] {
  return [
    ...(isOurs(state.comment) ? [] : [`table: comment ${JSON.stringify(state.comment ?? "")}`]),
    ...(hasTableFlags(table, state) ? [] : [`table: flags ${state.flags}`]),
  ];
}

/** NFT_TABLE_F_PERSIST: the table outlives its owner. Its flag OWNER is gone while nobody owns it. */
const PERSIST = 4;

function hasTableFlags(table: Table, state: TableHead): boolean {
  return table.isOwned === true ? (state.flags & PERSIST) !== 0 : state.flags === 0;
}

/** The attributes of a set that decide what it holds and how; the others are numbers of the kernel's or of nft's. */
const SET_ATTRIBUTES = ["flags", "keyType", "keyLength", "dataType", "dataLength", "timeout", "collection"] as const;

/**
 * In what a set of the kernel is not as defined: its elements could not be read or moved by the definition. What we would
 * send is compared attribute by attribute.
 */
export function setDifferences(table: Table, set: SetDefinition, state: SetState | undefined): readonly string[] {
  const [request] = requestsOf([{ kind: "add set", table, set }]);
  if (state === undefined || request === undefined) return [];
  const wanted = decodeBody(setLayout, request.body).attributes;
  const size = state.description?.size;
  return [
    ...SET_ATTRIBUTES.filter((name) => (wanted[name] ?? 0) !== (state[name] ?? 0) && wanted[name] !== undefined).map(
      (name) => `set ${set.name}: ${name} ${String(state[name])}`,
    ),
    ...(wanted.description?.size === size ? [] : [`set ${set.name}: size ${size}`]),
    ...((wanted.instruction === undefined) === (state.instruction === undefined) ? [] : [`set ${set.name}: counters`]),
  ];
}

/** In what a chain of the kernel is not as defined, its rules aside. */
export function chainDifferences(table: Table, chain: Chain, attributes: ChainState["attributes"]): readonly string[] {
  if (chain.base === undefined) return attributes.hook === undefined ? [] : [`chain ${chain.name}: another hook`];
  const [request] = requestsOf([{ kind: "add chain", table, chain }]);
  const wanted = request === undefined ? {} : decodeBody(chainLayout, request.body).attributes;
  const isSame =
    wanted.type === attributes.type &&
    wanted.policy === attributes.policy &&
    wanted.hook?.number === attributes.hook?.number &&
    wanted.hook?.priority === attributes.hook?.priority;
  return isSame ? [] : [`chain ${chain.name}: another hook`];
}
