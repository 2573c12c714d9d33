import type { LocatedObject } from "../../policyd/source/documents.ts";
import { asList, itemOf, jsonLine, readYamlObjects } from "../../policyd/source/documents.ts";
import type { JsonPiece } from "../../policyd/source/json_scanner.ts";
import { scanJson, unreadableJson } from "../../policyd/source/json_scanner.ts";

/**
 * What `take` makes of each object of a manifest: of YAML documents, or of JSON values one after the other; lists opened.
 *
 * Of a JSON list only one item is a tree at a time, so what is kept of each decides how much memory a list of 10,000 pods
 * takes.
 *
 * @param take must not keep the object it is given, or its `lineOf`, where there may be many
 * @throws DrawbridgeError ERR_OBJECT naming the line
 */
export function readManifestObjects<T>(
  chunks: Iterable<Uint8Array>,
  format: "json" | "yaml",
  take: (object: LocatedObject) => T,
): readonly T[] {
  return format === "json" ? readJson(chunks, take) : [...readYamlObjects(textOf(chunks))].map(take);
}

function textOf(chunks: Iterable<Uint8Array>): string {
  const decoder = new TextDecoder();
  const parts = [...chunks].map((chunk) => decoder.decode(chunk, { stream: true }));
  return parts.join("") + decoder.decode();
}

/** An item that leaves out its kind waits for the list's, which may stand behind it. */
type Item<T> = { readonly isTaken: true; readonly taken: T } | { readonly isTaken: false; readonly piece: JsonPiece };

/** A list that says nothing of its items. */
const ANY = { kind: "", apiVersion: undefined };

function readJson<T>(chunks: Iterable<Uint8Array>, take: (object: LocatedObject) => T): readonly T[] {
  const all: T[] = [];
  let items: Item<T>[] = [];
  for (const piece of scanJson(chunks)) {
    const value = parse(piece);
    if (piece.type === "item") {
      const isWhole = hasKind(value);
      items.push(
        isWhole ? { isTaken: true, taken: take(located(itemOf(ANY, value), piece)) } : { isTaken: false, piece },
      );
      continue;
    }
    const list = asList(value);
    if (list === undefined) all.push(take(located(value, piece)));
    else {
      for (const item of items) {
        all.push(item.isTaken ? item.taken : take(located(itemOf(list, parse(item.piece)), item.piece)));
      }
    }
    items = [];
  }
  return all;
}

function parse({ text, line }: JsonPiece): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw unreadableJson(error instanceof Error ? error.message : String(error), line);
  }
}

function hasKind(value: unknown): boolean {
  return typeof value === "object" && value !== null && "kind" in value;
}

function located(value: unknown, piece: JsonPiece): LocatedObject {
  return { value, lineOf: (path) => jsonLine(piece, path) };
}
