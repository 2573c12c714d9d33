import { keyTypes, valueTypes } from "../../../../kernel/nftables/encode/element.ts";
import type { DataType, Scalar } from "../../../../kernel/nftables/model/data_type.ts";
import type { KeyField } from "../../../../kernel/nftables/model/expression.ts";
import type { Element, SetDefinition } from "../../../../kernel/nftables/model/object.ts";
import type { Verdict } from "../../../../kernel/nftables/model/statement.ts";
import { isBetween, type Value, valueOf } from "./value.ts";

/** An element in the interpreter. */
export interface Entry {
  readonly key: readonly (readonly [Value, Value])[];
  readonly data: readonly Value[] | Verdict | undefined;
  /** When it expires, in milliseconds of the interpreter's clock; undefined for never. */
  expires: number | undefined;
  packets: number;
}

/** The content of a set or a map while packets pass. */
export class SetContent {
  readonly definition: SetDefinition;
  readonly #now: () => number;
  readonly #types: readonly DataType[];
  /** The elements by the text of their keys; an interval set is searched from its first element on. */
  readonly #entries = new Map<string, Entry>();

  constructor(definition: SetDefinition, elements: readonly Element[], now: () => number) {
    this.definition = definition;
    this.#now = now;
    this.#types = keyTypes(definition.key);
    const dataTypes = valueTypes(definition);
    for (const { key, data, timeout } of elements) {
      const bounds = keyBounds(this.#types, key);
      const text = textOf(bounds);
      if (this.#entries.has(text)) throw new Error(`set ${definition.name}: two elements ${text}`);
      const values = data === undefined || "kind" in data ? data : data.map((one, i) => dataValue(dataTypes[i], one));
      this.#entries.set(text, { key: bounds, data: values, expires: this.#expiry(timeout), packets: 0 });
    }
  }

  /** Returns the element that contains a key, and counts the packet there. */
  lookup(key: readonly Value[]): Entry | undefined {
    const found = this.#find(key);
    if (found !== undefined && this.definition.hasCounters === true) found.packets++;
    return found;
  }

  /**
   * Adds an element, or finds the existing one; `update` restarts its timeout, neither changes its data
   * (nft_hash_update).
   *
   * @returns false when the set is full, which ends the rule
   */
  put(
    key: readonly Value[],
    operation: "add" | "update",
    timeout: number | undefined,
    data?: readonly Value[],
  ): boolean {
    const found = this.#find(key);
    if (found !== undefined) {
      if (operation === "update" && found.expires !== undefined) found.expires = this.#expiry(timeout);
      return true;
    }
    for (const [text, { expires }] of this.#entries) if (this.#isOver(expires)) this.#entries.delete(text);
    if (this.#entries.size >= (this.definition.size ?? Number.POSITIVE_INFINITY)) return false;
    const bounds = key.map((value) => [value, value] as const);
    this.#entries.set(textOf(bounds), { key: bounds, data, expires: this.#expiry(timeout), packets: 0 });
    return true;
  }

  /** Returns how often a limit has used an element, this time included. */
  take(key: readonly Value[]): number {
    const found = this.#find(key);
    if (found === undefined) return 0;
    found.packets++;
    return found.packets;
  }

  remove(key: readonly Value[]): void {
    this.#entries.delete(textOf(key.map((value) => [value, value] as const)));
  }

  /** Returns the elements that have not expired. */
  entries(): readonly Entry[] {
    return [...this.#entries.values()].filter(({ expires }) => !this.#isOver(expires));
  }

  #find(key: readonly Value[]): Entry | undefined {
    const exact = this.#entries.get(textOf(key.map((value) => [value, value] as const)));
    if (exact !== undefined) return this.#isOver(exact.expires) ? undefined : exact;
    if (this.definition.isInterval !== true) return undefined;
    return this.entries().find((entry) => meets(entry.key, key));
  }

  #expiry(timeout: number | undefined): number | undefined {
    const { timeout: usual } = this.definition;
    const milliseconds = timeout ?? (typeof usual === "number" ? usual : undefined);
    return milliseconds === undefined ? undefined : this.#now() + milliseconds;
  }

  #isOver(expires: number | undefined): boolean {
    return expires !== undefined && expires <= this.#now();
  }
}

/** Whether a key lies within an element's bounds. */
export function meets(bounds: Entry["key"], key: readonly Value[]): boolean {
  return bounds.length === key.length && bounds.every(([first, last], i) => isBetween(key[i] ?? "", first, last));
}

/** Returns the bounds of an element's fields. */
export function keyBounds(types: readonly DataType[], key: readonly KeyField[]): Entry["key"] {
  if (types.length !== key.length) throw new Error(`a key of ${key.length} fields; expected ${types.length}`);
  return key.map((field, i) => {
    const [first, last] = typeof field === "object" ? [field.first, field.last] : [field, field];
    return [dataValue(types[i], first), dataValue(types[i], last)];
  });
}

function dataValue(type: DataType | undefined, scalar: Scalar): Value {
  if (type === undefined) throw new Error(`no type for ${scalar}`);
  return valueOf(type, scalar);
}

function textOf(bounds: Entry["key"]): string {
  return bounds.map(([first, last]) => (first === last ? String(first) : `${first}-${last}`)).join(" . ");
}
