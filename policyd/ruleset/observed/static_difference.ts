import { isOfDaemon } from "../../../attachment/our_tables.ts";
import { requestsOf } from "../../../kernel/nftables/encode/change.ts";
import { chainLayout, setLayout } from "../../../kernel/nftables/encode/message.ts";
import type { Chain, SetDefinition, Table } from "../../../kernel/nftables/model/object.ts";
import type { ChainState, SetState, TableHead } from "../../../kernel/nftables/decode/state.ts";
import { decodeBody } from "../../../kernel/netlink/message.ts";

/**
 * Returns why an existing table cannot be taken over, in words. Its content is not checked, and a table of another
 * version can be taken over.
 */
export function headDifferences(table: Table, state: TableHead): readonly string[] {
  return [
    ...(isOfDaemon(state.comment) ? [] : [`table: comment ${JSON.stringify(state.comment ?? "")}`]),
    ...(hasTableFlags(table, state) ? [] : [`table: flags ${state.flags}`]),
  ];
}

/** NFT_TABLE_F_PERSIST: the table outlives its owner. The flag OWNER is absent while nobody owns the table. */
const PERSIST = 4;

function hasTableFlags(table: Table, state: TableHead): boolean {
  return table.isOwned === true ? (state.flags & PERSIST) !== 0 : state.flags === 0;
}

/** The attributes of a set that decide what it holds and how; the others are numbers that the kernel or nft assigns. */
const SET_ATTRIBUTES = ["flags", "keyType", "keyLength", "dataType", "dataLength", "timeout", "collection"] as const;

/**
 * Returns how an existing set differs from its definition, so that its elements could not be read or changed by the
 * definition. The attributes that we would send are compared one by one.
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

/** Returns how an existing chain differs from its definition, apart from its rules. */
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
