import type { AttributeValues } from "../netlink/attribute.ts";
import { decodeAttributes, eachAttribute } from "../netlink/attribute.ts";
import { NetlinkError } from "../netlink/error.ts";
import type { Request } from "../netlink/message.ts";
import { decodeBody } from "../netlink/message.ts";
import type { NetlinkSocket } from "../netlink/socket.ts";
import { Errno } from "../syscall/errno.ts";
import type { DataType, Scalar } from "./data_type.ts";
import { paddedSize } from "./data_type.ts";
import type { ElementCode } from "./element.ts";
import { elementCode } from "./element.ts";
import { compareBytes, predecessor } from "./element_bytes.ts";
import type { KeyField } from "./expression.ts";
import type { Instruction } from "./instruction.ts";
import {
  chainAttributes,
  chainLayout,
  elementAttributes,
  elementLayout,
  Message,
  nftablesRequest,
  ruleLayout,
  setAttributes,
  setLayout,
  tableLayout,
} from "./message.ts";
import type { Element, SetDefinition, TableReference } from "./object.ts";
import { verdictOf } from "./rule_code.ts";
import { commentOf } from "./userdata.ts";

/** What is said of a table itself. */
export interface TableHead extends TableReference {
  readonly flags: number;
  readonly comment: string | undefined;
  /** The port id of the netlink socket that owns it. */
  readonly owner: number | undefined;
}

/** A table as the kernel has it: not what it means, but enough to tell whether it is what was written. */
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
const INTERVAL_END = 1;

/**
 * Reads a table with its chains, rules and sets. The parts are separate lists, so a change in between may show in
 * some of them only: compare the generation before and after.
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

/** Reads what is said of a table itself. @throws NetlinkError ENOENT when there is no such table */
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

/** Reads what is said of a table's chains, without their rules. @throws NetlinkError */
export function readChainAttributes(
  socket: NetlinkSocket,
  { family, name: table }: TableReference,
): readonly ChainState["attributes"][] {
  // The kernel lists the chains of all tables of a family, whatever the request names.
  const kind = { message: Message.GET_CHAIN, family, layout: chainLayout };
  return socket
    .dump(nftablesRequest(`list chains of ${family} ${table}`, kind, {}))
    .map((message) => decodeBody(chainLayout, message.body).attributes)
    .filter((attributes) => attributes.table === table && attributes.name !== undefined);
}

/** Reads the rules of one chain alone; none when there is no such chain. @throws NetlinkError */
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

/** Reads what is said of a table's sets, but for those of single rules. @throws NetlinkError */
export function readSets(socket: NetlinkSocket, { family, name: table }: TableReference): readonly SetState[] {
  const kind = { message: Message.GET_SET, family, layout: setLayout };
  return socket
    .dump(nftablesRequest(`list sets of ${family} ${table}`, kind, { table }))
    .map((message) => decodeBody(setLayout, message.body).attributes)
    .filter(({ flags = 0, ...set }) => set.table === table && set.name !== undefined && (flags & SET_ANONYMOUS) === 0);
}

/** An element as the kernel tells it. */
export type RawElement = AttributeValues<typeof elementAttributes>;

/** How often a list of elements that was told twice in part is read again. */
const ATTEMPTS = 20;

/**
 * The elements of one set, ranges put together again.
 *
 * @throws NetlinkError ENOENT when there is no such set; EINTR when its list cannot be had in one piece
 */
export function readElements(
  socket: NetlinkSocket,
  { family, name: table }: TableReference,
  definition: SetDefinition,
): readonly Element[] {
  const operation = `list elements of ${family} ${table} ${definition.name}`;
  const kind = { message: Message.GET_ELEMENTS, family, layout: elementLayout };
  const code = elementCode(definition);
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const raw = rawElements(socket, nftablesRequest(operation, kind, { table, set: definition.name }));
    if (!isComplete(raw)) continue;
    const isPaired = code.isInterval && code.key.length === 1;
    return isPaired ? pairIntervals(code, raw) : raw.map((element) => elementOf(code, element, lastOf(element)));
  }
  throw new NetlinkError(operation, Errno.EINTR, `the set grew or shrank during each of ${ATTEMPTS} lists`);
}

function rawElements(socket: NetlinkSocket, request: Request): readonly RawElement[] {
  const raw: RawElement[] = [];
  for (const message of socket.dump(request)) {
    const { elements } = decodeBody(elementLayout, message.body).attributes;
    if (elements === undefined) continue;
    for (const [, payload] of eachAttribute(elements)) raw.push(decodeAttributes(elementAttributes, payload));
  }
  return raw;
}

/**
 * Whether no element was told twice. A hash table that the kernel is resizing in the background, as it does for a
 * while after many elements have come or gone, is in another order in each message of the list (nft_rhash_walk skips
 * as many as it has told): as many elements are missing then as were told twice, and no flag says so.
 */
function isComplete(raw: readonly RawElement[]): boolean {
  const seen = new Set<string>();
  for (const element of raw) seen.add(String.fromCharCode(element.flags ?? 0, ...firstOf(element), ...lastOf(element)));
  return seen.size === raw.length;
}

function lastOf(element: RawElement): Uint8Array {
  return element.keyEnd?.value ?? firstOf(element);
}

function firstOf(element: RawElement): Uint8Array {
  return element.key?.value ?? new Uint8Array();
}

function isEnd(element: RawElement): boolean {
  return ((element.flags ?? 0) & INTERVAL_END) !== 0;
}

/** Intervals of a single field are two entries: their first value, and the first value behind them. */
function pairIntervals(code: ElementCode, raw: readonly RawElement[]): readonly Element[] {
  const sorted = raw.toSorted((a, b) => compareBytes(firstOf(a), firstOf(b)) || Number(isEnd(b)) - Number(isEnd(a)));
  const found: Element[] = [];
  for (const [index, element] of sorted.entries()) {
    if (isEnd(element)) continue;
    const next = sorted[index + 1];
    const last = next === undefined ? firstOf(element).map(() => 0xff) : predecessor(firstOf(next));
    found.push(elementOf(code, element, last));
  }
  return found;
}

/**
 * An element in our words.
 *
 * @param last the end of an interval; the key itself otherwise
 */
export function elementOf(code: ElementCode, element: RawElement, last: Uint8Array): Element {
  const first = fieldsOf(code.key, firstOf(element));
  const ends = code.isInterval ? fieldsOf(code.key, last) : first;
  const comment = commentOf(element.userdata);
  const data = dataOf(code, element);
  return {
    key: first.map((value, index): KeyField => {
      const end = ends[index] ?? value;
      return value === end ? value : { first: value, last: end };
    }),
    ...(data === undefined ? {} : { data }),
    ...(element.timeout === undefined ? {} : { timeout: Number(element.timeout) }),
    ...(comment === undefined ? {} : { comment }),
  };
}

function dataOf(code: ElementCode, { data }: RawElement): Element["data"] {
  if (code.data === "verdict") {
    return data?.verdict?.code === undefined ? undefined : verdictOf(data.verdict.code, data.verdict.chain);
  }
  return code.data === undefined || data?.value === undefined ? undefined : fieldsOf(code.data, data.value);
}

function fieldsOf(types: readonly DataType[], bytes: Uint8Array): readonly Scalar[] {
  let offset = 0;
  return types.map((type) => {
    const value = type.decode(bytes.subarray(offset, offset + type.size));
    offset += paddedSize(type);
    return value;
  });
}
