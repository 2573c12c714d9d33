import { MessageFlag, type Request } from "../../netlink/message.ts";
import { type DataType, paddedSize, typeNumber } from "../model/data_type.ts";
import { keyTypes, valueTypes } from "./element.ts";
import { elementMessages } from "./element_request.ts";
import { checkInteger, checkName, checkTimeout } from "../model/identifier.ts";
import { instruction } from "./instruction.ts";
import { type AnonymousSet, checkModulus } from "./rule_code.ts";
import { ANONYMOUS_NAME } from "./match_code.ts";
import { Message, nftablesRequest, setLayout } from "./message.ts";
import type { SetDefinition, TableReference } from "../model/object.ts";
import { anonymousUserdata, setUserdata } from "./userdata.ts";

/** NFT_SET_* (include/uapi/linux/netfilter/nf_tables.h). */
const SetFlag = { ANONYMOUS: 1, CONSTANT: 2, INTERVAL: 4, MAP: 8, TIMEOUT: 16, EVAL: 32, CONCATENATION: 128 } as const;
/** NFT_DATA_VERDICT, the data type of verdict maps. */
const VERDICT_TYPE = 0xffffff00;
const DYNAMIC_SIZE = 0xffff;
/** A named set is found by its name. Only sets of single rules have numbers. */
const NO_ID = 0;

/**
 * Returns the message that makes a set or map.
 *
 * @throws DrawbridgeError ERR_NFTABLES_VALUE when a field of the definition is out of range
 */
export function setRequest({ family, name: table }: TableReference, definition: SetDefinition): Request {
  const { name, timeout, collectionInterval } = definition;
  const size = setSize(definition);
  for (const part of definition.key) if (typeof part !== "string") checkModulus(part.modulus);
  const key = keyTypes(definition.key);
  const fields = definition.isInterval === true && key.length > 1 ? fieldsOf(key) : undefined;
  const description = {
    ...(size === undefined ? {} : { size: checkInteger("set size", size, 1, 0xffffffff) }),
    ...(fields === undefined ? {} : { fields }),
  };
  return nftablesRequest(
    `add ${definition.data === undefined ? "set" : "map"} ${family} ${table} ${name}`,
    { message: Message.NEW_SET, flags: MessageFlag.CREATE, family, layout: setLayout },
    {
      table,
      name: checkName("set", name),
      flags: flagsOf(definition, fields !== undefined),
      keyType: typeNumber(key),
      keyLength: storedSize(key),
      ...dataOf(definition),
      ...(Object.keys(description).length === 0 ? {} : { description }),
      id: NO_ID,
      ...(typeof timeout === "number" ? { timeout: checkTimeout(timeout) } : {}),
      ...(collectionInterval === undefined
        ? {}
        : { collection: checkInteger("set collectionInterval", collectionInterval, 1, 0xffffffff) }),
      ...(definition.hasCounters === true ? { instruction: instruction("counter", { bytes: 0n, packets: 0n }) } : {}),
      userdata: setUserdata(definition),
    },
  );
}

/**
 * Returns the largest number of a set's elements; undefined for no limit. A set that rules add to must have a limit,
 * and nft lists it, so the kernel's default (nft_dynset_init) is made explicit.
 */
export function setSize({ size, isDynamic }: SetDefinition): number | undefined {
  return size ?? (isDynamic === true ? DYNAMIC_SIZE : undefined);
}

/** Returns the messages that make the set of a single rule with its elements. */
export function anonymousSetRequests(table: TableReference, set: AnonymousSet): readonly Request[] {
  const code = { key: set.types, data: undefined, isInterval: false };
  const elements = set.values.map((value) => ({ key: [value] }));
  return [
    nftablesRequest(
      `add a set for one rule of ${table.family} ${table.name}`,
      { message: Message.NEW_SET, flags: MessageFlag.CREATE, family: table.family, layout: setLayout },
      {
        table: table.name,
        name: ANONYMOUS_NAME,
        flags: SetFlag.ANONYMOUS | SetFlag.CONSTANT,
        keyType: typeNumber(set.types),
        keyLength: storedSize(set.types),
        description: { size: elements.length },
        id: set.id,
        userdata: anonymousUserdata(set.types),
      },
    ),
    ...elementMessages({ kind: "add elements", table, set: { name: ANONYMOUS_NAME }, elements }, code, set.id),
  ];
}

function flagsOf({ data, isInterval, isDynamic, timeout }: SetDefinition, isConcatenation: boolean): number {
  return (
    (data === undefined ? 0 : SetFlag.MAP) |
    (isInterval === true ? SetFlag.INTERVAL : 0) |
    (isConcatenation ? SetFlag.CONCATENATION : 0) |
    (isDynamic === true ? SetFlag.EVAL : 0) |
    (timeout === undefined ? 0 : SetFlag.TIMEOUT)
  );
}

function fieldsOf(types: readonly DataType[]): readonly { readonly length: number }[] {
  return types.map(({ size }) => ({ length: size }));
}

function dataOf(definition: SetDefinition): { readonly dataType?: number; readonly dataLength?: number } {
  if (definition.data === undefined) return {};
  if (definition.data === "verdict") return { dataType: VERDICT_TYPE };
  const types = valueTypes(definition);
  return { dataType: typeNumber(types), dataLength: storedSize(types) };
}

/** Returns the size of a key or data: a single value as it is, concatenated fields padded to multiples of four. */
function storedSize(types: readonly DataType[]): number {
  const [only, ...others] = types;
  return only !== undefined && others.length === 0 ? only.size : types.reduce((sum, type) => sum + paddedSize(type), 0);
}
