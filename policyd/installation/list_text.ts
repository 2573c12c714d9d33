import { Buffer } from "node:buffer";
import { isMap, isScalar, isSeq, type ParsedNode, parseDocument } from "yaml";
import { isObject } from "../../cni/json.ts";

/** A JSON object as `JSON.parse` returns it. */
export type JsonObject = Readonly<Record<string, unknown>>;

/** An entry of `plugins`, with its text in the file. */
export interface ListEntry {
  readonly type: string;
  readonly value: JsonObject;
  /** The bytes of the entry, one character for each. */
  readonly raw: string;
}

/** A network configuration list in parts from which it can be composed again byte for byte. */
export interface NetworkList {
  readonly name: unknown;
  readonly cniVersion: unknown;
  readonly cniVersions: unknown;
  /** The other members, each with its key in quotes and its value as in the file; one character for each byte. */
  readonly members: readonly string[];
  readonly entries: readonly ListEntry[];
  /** The number of entries without a type; a runtime refuses a list with such an entry. */
  readonly unusable: number;
}

/** Far more than a list with all its plugins needs: bytes. The parser takes seconds for a megabyte of small values. */
export const LARGEST_LIST = 128 * 1024;
const OWNED = ["cniVersion", "cniVersions", "name", "plugins"];
/** Far more than existing lists have; a runtime executes each entry for each pod. */
const MOST_ENTRIES = 64;

/**
 * Parses a list. For a duplicate key the last value counts, as in libcni.
 *
 * @returns the list, or why no runtime could use it, in words
 */
export function readList(data: Uint8Array): NetworkList | { readonly unreadable: string } {
  const text = asText(data);
  const whole = parsed(text);
  if (whole === undefined) return { unreadable: "it is not JSON" };
  if (!isObject(whole.value)) return { unreadable: "it is not a JSON object" };
  const plugins = whole.value["plugins"];
  if (plugins !== undefined && !Array.isArray(plugins)) return { unreadable: "plugins is not a list" };
  const spans = membersOf(text);
  const list = spans.findLast(({ key }) => key === "plugins")?.value;
  const raws = isSeq(list) ? list.items.map(({ range: [start, end] }) => text.slice(start, end)) : [];
  if (raws.length > MOST_ENTRIES) return { unreadable: `it has more than ${MOST_ENTRIES} plugins` };
  const entries = raws.flatMap((raw) => {
    const value = parsed(raw)?.value;
    return isObject(value) && typeof value["type"] === "string" && value["type"] !== ""
      ? [{ type: value["type"], value, raw }]
      : [];
  });
  return {
    name: whole.value["name"],
    cniVersion: whole.value["cniVersion"],
    cniVersions: whole.value["cniVersions"],
    members: spans.filter(({ key }) => !OWNED.includes(String(key))).map(({ raw }) => raw),
    entries,
    unusable: raws.length - entries.length,
  };
}

/** Returns the JSON value of arbitrary bytes; undefined where they are not JSON. */
export function readValue(data: Uint8Array): unknown {
  return parsed(asText(data))?.value;
}

/** Returns a value as text of a list: UTF-8 with one character for each byte, further lines indented. */
export function rawOf(value: unknown, indent: string): string {
  const text = JSON.stringify(value, undefined, 2).replaceAll("\n", `\n${indent}`);
  return Buffer.from(text, "utf8").toString("latin1");
}

/** Returns the bytes of a text with one character for each byte. */
export function bytesOf(text: string): Uint8Array {
  return Buffer.from(text, "latin1");
}

function asText(data: Uint8Array): string {
  return Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString("latin1");
}

/** Parses JSON from a text of byte characters; undefined where it is not JSON. Invalid UTF-8 is replaced, as in Go. */
function parsed(text: string): { readonly value: unknown } | undefined {
  try {
    return { value: JSON.parse(Buffer.from(text, "latin1").toString("utf8")) };
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

interface Span {
  readonly key: unknown;
  readonly value: ParsedNode | null;
  readonly raw: string;
}

/** Returns the members of the outermost object of a text that is known to be JSON, which YAML contains. */
function membersOf(text: string): readonly Span[] {
  // "failsafe" interprets no value: only the places count. The parser takes a carriage return for a part of a word.
  const { contents } = parseDocument(text.replaceAll("\r", " "), {
    schema: "failsafe",
    uniqueKeys: false,
    prettyErrors: false,
  });
  if (!isMap(contents)) return [];
  return contents.items.map(({ key, value }) => {
    const raw = text.slice(key.range[0], (value ?? key).range[1]);
    return { key: isScalar(key) ? key.value : undefined, value, raw };
  });
}
