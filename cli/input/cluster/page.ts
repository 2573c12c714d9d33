import { asList, itemOf } from "../../../policyd/source/documents.ts";
import { DrawbridgeError } from "../../../kernel/error.ts";
import type { JsonPiece } from "../json_scanner.ts";
import { scanJson, unreadableJson } from "../json_scanner.ts";
import type { Resource } from "./resources.ts";

/** A part of a list. */
export interface Page<T> {
  readonly items: readonly T[];
  /** What asks for the next part; empty behind the last. */
  readonly next: string;
}

/**
 * Reads one answer of the API server; of its items only one is a tree at a time.
 *
 * @param take what to keep of an item; the list's kind and apiVersion are put into it
 * @throws DrawbridgeError ERR_OBJECT for anything but one list of the resource's kind
 */
export function readPage<T>(
  body: Iterable<Uint8Array>,
  { kind, apiVersion }: Resource,
  take: (object: unknown) => T,
): Page<T> {
  const items: T[] = [];
  let frame: unknown;
  for (const piece of scanJson(body)) {
    if (frame !== undefined) throw unreadableJson("more than one value; expected one list", piece.line);
    const value = parse(piece);
    if (piece.type === "item") items.push(take(itemOf({ kind, apiVersion }, value)));
    else frame = value;
  }
  const list = asList(frame);
  if (list === undefined || list.kind !== kind || list.apiVersion !== apiVersion) {
    const found = list === undefined ? "something else" : `${list.kind}List of ${String(list.apiVersion)}`;
    throw new DrawbridgeError("ERR_OBJECT", `${found}; expected a ${kind}List of ${apiVersion}`);
  }
  // The scanner cuts out the items of one list; of a second there would be no trace.
  if (list.items.length > 0) throw new DrawbridgeError("ERR_OBJECT", "items: expected one list of them");
  return { items, next: continueOf(frame) };
}

function parse({ text, line }: JsonPiece): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw unreadableJson(error instanceof Error ? error.message : String(error), line);
  }
}

function continueOf(list: unknown): string {
  const metadata = memberOf(list, "metadata");
  const token = memberOf(metadata, "continue") ?? "";
  if (typeof token !== "string") throw new DrawbridgeError("ERR_OBJECT", "metadata.continue: expected a text");
  return token;
}

function memberOf(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null ? Reflect.get(value, name) : undefined;
}
