import { DrawbridgeError } from "../../../../kernel/error.ts";
import { NetlinkError } from "../../../../kernel/netlink/error.ts";
import { decodeBody } from "../../../../kernel/netlink/message.ts";
import { Errno } from "../../../../kernel/syscall/errno.ts";
import { type Change, requestsOf } from "../../../../kernel/nftables/encode/change.ts";
import { keyText } from "../../../../kernel/nftables/encode/element.ts";
import { checkElement, checkRule, checkUnusedChain, checkUnusedSet } from "./fake_references.ts";
import { chainLayout, ruleLayout, setLayout, tableLayout } from "../../../../kernel/nftables/encode/message.ts";
import type { Element, SetDefinition, TableReference } from "../../../../kernel/nftables/model/object.ts";
import type { ElementPieces, Nftables } from "../../../../kernel/nftables/socket.ts";
import type { ChainState, RuleState, SetState, TableHead } from "../../../../kernel/nftables/decode/state.ts";
import { commentOf } from "../../../../kernel/nftables/encode/userdata.ts";
import type { ObservedChain, TableState } from "../table_state.ts";

/** The number of elements in one piece of a list. */
const PIECE = 200;

interface FakeTable extends TableState {
  readonly chains: Map<string, ObservedChain>;
  readonly sets: Map<string, SetState>;
  readonly content: Map<string, Map<string, Element>>;
  /** The packet counters of elements, by set and key. */
  readonly packets: Map<string, number>;
}

/**
 * The kernel's nftables in memory, for tests without a kernel. Batches are atomic. A missing object cannot be deleted
 * or referenced, a referenced object cannot be deleted, and an element's data cannot change. It decodes what would be
 * sent, so it shows what the kernel would.
 */
export class FakeNftables implements Nftables {
  /** Every committed batch. */
  readonly commits: (readonly Change[])[] = [];
  #tables = new Map<string, FakeTable>();
  #generation = 1;

  commit(changes: readonly Change[]): void {
    if (changes.length === 0) return;
    const tables = new Map([...this.#tables].map(([key, table]) => [key, copyOf(table)]));
    requestsOf(changes);
    for (const change of changes) this.#apply(tables, change);
    this.#tables = tables;
    this.#generation++;
    this.commits.push(changes);
  }

  table(reference: TableReference): TableState | undefined {
    return this.#tables.get(nameOf(reference));
  }

  head(reference: TableReference): TableHead | undefined {
    return this.table(reference);
  }

  chains(reference: TableReference): readonly ChainState[] {
    return [...(this.table(reference)?.chains.values() ?? [])].map(({ attributes }) => attributes);
  }

  sets(reference: TableReference): readonly SetState[] {
    return [...(this.table(reference)?.sets.values() ?? [])];
  }

  rulesOf(reference: TableReference, chain: string): readonly RuleState[] {
    return this.#tables.get(nameOf(reference))?.chains.get(chain)?.rules ?? [];
  }

  elements(reference: TableReference, set: SetDefinition, keys?: readonly Element["key"][]): readonly Element[] {
    const content = this.#tables.get(nameOf(reference))?.content.get(set.name) ?? new Map<string, Element>();
    return keys?.flatMap((key) => content.get(keyText(key)) ?? []) ?? [...content.values()];
  }

  /**
   * Lists as the kernel does: it continues after the number of elements already sent, whatever has come or gone before
   * them, and prepares each piece when the previous one is taken (netlink_recvmsg calls netlink_dump afterwards).
   */
  *elementsInPieces(reference: TableReference, set: SetDefinition): ElementPieces {
    const first = this.sets(reference).find(({ name }) => name === set.name);
    const pieceFrom = (offset: number): readonly Element[] | undefined =>
      first !== undefined && this.sets(reference).includes(first)
        ? this.elements(reference, set).slice(offset, offset + PIECE)
        : undefined;
    let offset = 0;
    for (let next = pieceFrom(0); ;) {
      if (next === undefined) throw new NetlinkError(`list elements of ${set.name}`, Errno.ENOENT);
      if (next.length === 0) return;
      const piece = next;
      offset += piece.length;
      next = pieceFrom(offset);
      yield piece;
    }
  }

  /** Returns the packets that an element has counted since it was written. */
  packets(reference: TableReference, set: string, key: string): number {
    return this.#tables.get(nameOf(reference))?.packets.get(`${set} ${key}`) ?? 0;
  }

  /** Simulates packets that match a rule which adds an element, if it is missing, and counts at it. */
  count(reference: TableReference, set: string, element: Element, packets: number): void {
    const table = required(this.#tables.get(nameOf(reference)), `table ${nameOf(reference)}`);
    const key = keyText(element.key);
    const content = required(table.content.get(set), `set ${set}`);
    if (!content.has(key)) content.set(key, element);
    table.packets.set(`${set} ${key}`, this.packets(reference, set, key) + packets);
  }

  generation(): number {
    return this.#generation;
  }

  close(): void {}

  #apply(tables: Map<string, FakeTable>, change: Change): void {
    const key = nameOf(change.table);
    if (change.kind === "add table") {
      if (!tables.has(key)) tables.set(key, newTable(change));
      return;
    }
    const table = required(tables.get(key), `table ${key}`);
    switch (change.kind) {
      case "delete table":
        tables.delete(key);
        return;
      case "add chain":
      case "delete chain":
      case "flush chain":
        return changeChain(table, change);
      case "add rule": {
        const { attributes, rules } = required(table.chains.get(change.chain), `chain ${change.chain}`);
        const rule = ruleOf(change);
        checkRule(`add rule to ${change.chain}`, table, rule);
        table.chains.set(change.chain, { attributes, rules: [...rules, rule] });
        return;
      }
      case "add set":
      case "delete set":
      case "flush set":
        return changeSet(table, change);
      case "add elements":
      case "delete elements":
        return changeElementsOf(table, change);
    }
  }
}

type ChangeOf<K extends Change["kind"]> = Extract<Change, { readonly kind: K }>;

function ruleOf(change: ChangeOf<"add rule">): RuleState {
  const request = requestsOf([change]).at(-1);
  const { instructions = [] } = request === undefined ? {} : decodeBody(ruleLayout, request.body).attributes;
  return { instructions };
}

function newTable(change: ChangeOf<"add table">): FakeTable {
  const [request] = requestsOf([change]);
  const attributes = request === undefined ? {} : decodeBody(tableLayout, request.body).attributes;
  return {
    family: change.table.family,
    name: change.table.name,
    comment: commentOf(attributes.userdata),
    flags: attributes.flags ?? 0,
    owner: undefined,
    chains: new Map(),
    sets: new Map(),
    content: new Map(),
    packets: new Map(),
  };
}

function changeChain(table: FakeTable, change: ChangeOf<"add chain" | "delete chain" | "flush chain">): void {
  const { chains } = table;
  if (change.kind === "add chain") {
    const [request] = requestsOf([change]);
    if (request === undefined || chains.has(change.chain.name)) return;
    chains.set(change.chain.name, { attributes: decodeBody(chainLayout, request.body).attributes, rules: [] });
    return;
  }
  const { attributes } = required(chains.get(change.chain), `chain ${change.chain}`);
  if (change.kind === "delete chain") {
    checkUnusedChain(table, change.chain);
    chains.delete(change.chain);
  } else chains.set(change.chain, { attributes, rules: [] });
}

function changeSet(table: FakeTable, change: ChangeOf<"add set" | "delete set" | "flush set">): void {
  const { sets, content, packets } = table;
  const { name } = change.set;
  if (change.kind === "add set") {
    const [request] = requestsOf([change]);
    if (request === undefined || sets.has(name)) return;
    sets.set(name, decodeBody(setLayout, request.body).attributes);
    content.set(name, new Map());
    return;
  }
  const elements = required(content.get(name), `set ${name}`);
  for (const key of elements.keys()) packets.delete(`${name} ${key}`);
  elements.clear();
  if (change.kind === "flush set") return;
  checkUnusedSet(table, name);
  sets.delete(name);
  content.delete(name);
}

function changeElementsOf(table: FakeTable, change: ChangeOf<"add elements" | "delete elements">): void {
  const { name } = change.set;
  if (change.kind === "add elements") {
    for (const element of change.elements) checkElement(`add element of ${name}`, table, element);
  }
  changeElements(required(table.content.get(name), `set ${name}`), change);
  if (change.kind === "delete elements") {
    for (const { key } of change.elements) table.packets.delete(`${name} ${keyText(key)}`);
  }
}

function changeElements(
  content: Map<string, Element>,
  { kind, elements, isNew }: Pick<Extract<Change, { elements: unknown }>, "kind" | "elements" | "isNew">,
): void {
  for (const element of elements) {
    const key = keyText(element.key);
    const present = content.get(key);
    if (kind === "delete elements") {
      if (present === undefined) throw new NetlinkError(`delete element ${key}`, Errno.ENOENT);
      content.delete(key);
    } else if (present === undefined) {
      content.set(key, element);
    } else if (isNew === true || JSON.stringify(present.data, plain) !== JSON.stringify(element.data, plain)) {
      throw new NetlinkError(`add element ${key}`, Errno.EEXIST);
    }
  }
}

function plain(_key: string, value: unknown): unknown {
  return typeof value === "bigint" ? String(value) : value;
}

function required<T>(value: T | undefined, what: string): T {
  if (value === undefined) throw new DrawbridgeError("ERR_NETLINK", `${what}: no such file or directory (ENOENT)`);
  return value;
}

function copyOf(table: FakeTable): FakeTable {
  return {
    ...table,
    chains: new Map(table.chains),
    sets: new Map(table.sets),
    content: new Map([...table.content].map(([name, elements]) => [name, new Map(elements)])),
    packets: new Map(table.packets),
  };
}

function nameOf({ family, name }: TableReference): string {
  return `${family} ${name}`;
}
