import { MessageFlag, type Request } from "../../netlink/message.ts";
import { elementRequests } from "./element_request.ts";
import { checkInteger, checkName, checkPresentName } from "../model/identifier.ts";
import { chainLayout, elementLayout, Message, nftablesRequest, ruleLayout, setLayout, tableLayout } from "./message.ts";
import type { Chain, Element, SetDefinition, Table, TableReference } from "../model/object.ts";
import { lowerRule } from "./lowering.ts";
import { anonymousSetRequests, setRequest } from "./set_request.ts";
import type { Rule } from "../model/statement.ts";
import { commentUserdata } from "./userdata.ts";

/** The name of a set or, with `data`, of a map. */
export type SetName = Pick<SetDefinition, "name" | "data">;

/** One step of a batch as a value, to be sent to the kernel or printed. */
export type Change =
  | { readonly kind: "add table"; readonly table: Omit<Table, "sets" | "chains"> }
  | { readonly kind: "delete table"; readonly table: TableReference }
  | { readonly kind: "add chain"; readonly table: TableReference; readonly chain: Omit<Chain, "rules"> }
  | { readonly kind: "delete chain" | "flush chain"; readonly table: TableReference; readonly chain: string }
  | { readonly kind: "add rule"; readonly table: TableReference; readonly chain: string; readonly rule: Rule }
  | { readonly kind: "add set"; readonly table: TableReference; readonly set: SetDefinition }
  | {
      readonly kind: "delete set" | "flush set";
      readonly table: TableReference;
      readonly set: SetName;
    }
  | {
      readonly kind: "add elements" | "delete elements";
      readonly table: TableReference;
      readonly set: SetDefinition;
      readonly elements: readonly Element[];
      /** For an addition: the kernel refuses it (EEXIST) when one of the keys exists, even with the same data. */
      readonly isNew?: boolean;
    };

/** NFT_TABLE_F_* (include/uapi/linux/netfilter/nf_tables.h). No chain of a dormant table sees packets. */
export const TableFlag = { DORMANT: 1, OWNER: 2, PERSIST: 4 } as const;
/** NF_INET_* (include/uapi/linux/netfilter.h). */
export const hooks = { prerouting: 0, input: 1, forward: 2, output: 3, postrouting: 4 } as const;
const policies = { drop: 0, accept: 1 } as const;
/** NLM_F_APPEND: after the existing rules. */
const APPEND = 0x800;

/**
 * Returns the messages of a batch, in the order of the changes. Elements that do not fit one message take several.
 *
 * @throws DrawbridgeError ERR_NFTABLES_VALUE when a change is invalid; nothing has been sent then
 */
export function requestsOf(changes: readonly Change[]): readonly Request[] {
  return requestsByChange(changes).flat();
}

/** Returns the messages of a batch as {@link requestsOf} does, those of each change together. */
export function requestsByChange(changes: readonly Change[]): readonly (readonly Request[])[] {
  let setId = 0;
  const nextSetId = (): number => ++setId;
  return changes.map((change) => changeRequests(change, nextSetId));
}

/** Returns the steps that make a new table with its elements: chains and sets before anything that refers to them. */
export function tableChanges(table: Table, elements: ReadonlyMap<string, readonly Element[]>): readonly Change[] {
  const { sets, chains, ...head } = table;
  return [
    { kind: "add table", table: head },
    // Chains come first: nft adds the elements of an interval map, which may name chains, together with the map.
    ...chains.map((chain): Change => ({ kind: "add chain", table, chain })),
    ...sets.map((set): Change => ({ kind: "add set", table, set })),
    ...chains.flatMap(({ name, rules }) =>
      rules.map((rule): Change => ({ kind: "add rule", table, chain: name, rule })),
    ),
    ...sets.map((set): Change => ({ kind: "add elements", table, set, elements: elements.get(set.name) ?? [] })),
  ];
}

function changeRequests(change: Change, nextSetId: () => number): readonly Request[] {
  const { family } = change.table;
  const table = checkName("table", change.table.name);
  switch (change.kind) {
    case "add table":
      return [addTable(change.table)];
    case "delete table": {
      const kind = { message: Message.DELETE_TABLE, family, layout: tableLayout };
      return [nftablesRequest(`delete table ${family} ${table}`, kind, { name: table })];
    }
    case "add chain":
      return [addChain(change.table, change.chain)];
    case "delete chain": {
      const name = checkPresentName("chain", change.chain);
      const kind = { message: Message.DELETE_CHAIN, family, layout: chainLayout };
      return [nftablesRequest(`delete chain ${family} ${table} ${name}`, kind, { table, name })];
    }
    case "flush chain": {
      const chain = checkPresentName("chain", change.chain);
      const kind = { message: Message.DELETE_RULE, family, layout: ruleLayout };
      return [nftablesRequest(`flush chain ${family} ${table} ${chain}`, kind, { table, chain })];
    }
    case "add rule":
      return addRule(change.table, change.chain, change.rule, nextSetId);
    case "add set":
      return [setRequest(change.table, change.set)];
    case "delete set": {
      const name = checkPresentName("set", change.set.name);
      const kind = { message: Message.DELETE_SET, family, layout: setLayout };
      return [nftablesRequest(`delete set ${family} ${table} ${name}`, kind, { table, name })];
    }
    case "flush set": {
      const set = checkPresentName("set", change.set.name);
      const kind = { message: Message.DELETE_ELEMENTS, family, layout: elementLayout };
      return [nftablesRequest(`flush set ${family} ${table} ${set}`, kind, { table, set })];
    }
    case "add elements":
    case "delete elements":
      return elementRequests(change);
  }
}

function commented(comment: string | undefined): { readonly userdata?: Uint8Array } {
  return comment === undefined ? {} : { userdata: commentUserdata(comment) };
}

function flagsOf(isOwned: Table["isOwned"]): number {
  if (isOwned === true) return TableFlag.OWNER | TableFlag.PERSIST;
  return isOwned === "until closed" ? TableFlag.OWNER : 0;
}

function addTable({ family, name, comment, isOwned }: Omit<Table, "sets" | "chains">): Request {
  const flags = flagsOf(isOwned);
  return nftablesRequest(
    `add table ${family} ${name}`,
    {
      message: Message.NEW_TABLE,
      flags: MessageFlag.CREATE,
      family,
      layout: tableLayout,
      // With a claim to the table, EOPNOTSUPP has other reasons, too.
      needs: flags === 0 ? `table ${family}` : undefined,
    },
    { name, ...(flags === 0 ? {} : { flags }), ...commented(comment) },
  );
}

function addChain({ family, name: table }: TableReference, { name, base }: Omit<Chain, "rules">): Request {
  return nftablesRequest(
    `add chain ${family} ${table} ${name}`,
    { message: Message.NEW_CHAIN, flags: MessageFlag.CREATE, family, layout: chainLayout },
    {
      table,
      name: checkName("chain", name),
      ...(base === undefined
        ? {}
        : {
            hook: {
              number: hooks[base.hook],
              priority: checkInteger("priority", base.priority, -0x80000000, 0x7fffffff) >>> 0,
            },
            policy: policies[base.policy],
            type: base.type,
          }),
    },
  );
}

function addRule(
  reference: TableReference,
  chainName: string,
  rule: Rule,
  nextSetId: () => number,
): readonly Request[] {
  const table = { ...reference, name: checkName("table", reference.name) };
  const chain = checkName("chain", chainName);
  const { instructions, anonymousSets } = lowerRule(rule, table.family, nextSetId);
  const flags = MessageFlag.CREATE | APPEND;
  return [
    ...anonymousSets.flatMap((set) => anonymousSetRequests(table, set)),
    nftablesRequest(
      `add rule ${table.family} ${table.name} ${chain}`,
      { message: Message.NEW_RULE, flags, family: table.family, layout: ruleLayout },
      { table: table.name, chain, instructions, ...commented(rule.comment) },
    ),
  ];
}
