import { Buffer } from "node:buffer";
import { DrawbridgeError } from "../../kernel/error.ts";
import { type JsonPiece, parseJson, scanJson } from "./json_scanner.ts";
import { type YamlDocument, yamlDocuments } from "./yaml_documents.ts";
import { type CutList, cutList, headerOf, type ObjectHeader } from "./yaml_list.ts";
import { readSimple } from "./yaml_simple.ts";
import { type FieldPath, type LocatedObject, readTree } from "./yaml_tree.ts";

export type { FieldPath, LocatedObject } from "./yaml_tree.ts";

/**
 * Yields the objects in the text of a file: of YAML documents or of one JSON value. Lists yield their items.
 *
 * YAML is read as kubectl reads it (sigs.k8s.io/yaml, YAML 1.1): unquoted `yes`, `on` and `y` are booleans and 0777 is
 * octal, while times and `1:30` stay texts. A label `yes` is therefore refused as a boolean, as the API server does.
 * Keys given twice are an error. In JSON the last of two equal keys counts, as in Go.
 *
 * @param fileName a name that ends in `.json` selects JSON
 * @throws DrawbridgeError ERR_OBJECT naming the line, when it is reached; the objects before may be part of a torn file
 */
export function* readObjects(text: string, fileName: string): Generator {
  if (fileName.endsWith(".json"))
    for (const { value } of openList({ value: parseJson({ text }), lineOf: () => 1 })) yield value;
  else for (const { value } of readYamlObjects(text)) yield value;
}

/** A document, or an item of a list, that cannot be read but whose kind and version are known. */
export interface BrokenObject extends ObjectHeader {
  /** An error whose message begins with the line. */
  readonly reason: DrawbridgeError;
}

/**
 * Yields objects as {@link readObjects} does for YAML, with their lines.
 *
 * @param passes returns whether to skip a broken object; by default none is skipped
 * @throws DrawbridgeError ERR_OBJECT naming the line, when it is reached
 */
export function* readYamlObjects(
  text: string,
  passes: (broken: BrokenObject) => boolean = () => false,
): Generator<LocatedObject> {
  let isFirst = true;
  for (const document of yamlDocuments(text)) {
    const objects = isFirst ? jsonObjects(document) : undefined;
    isFirst = false;
    if (objects !== undefined) yield* objects;
    else yield* readParts(document, passes);
  }
}

/** Yields the objects of a document. A list that can be cut is read item by item. */
function* readParts(document: YamlDocument, passes: (broken: BrokenObject) => boolean): Generator<LocatedObject> {
  const cut = cutList(document);
  const list = cut === undefined ? undefined : attempt(() => frameOf(cut));
  if (cut === undefined || list === undefined) {
    yield* attemptPart(document.text, passes, () => [...readWhole(document)]);
    return;
  }
  let isCutRight = true;
  for (const [index, item] of cut.items.entries()) {
    const objects = attempt(() => readItem(item, list));
    if (objects !== undefined) {
      yield* objects;
      continue;
    }
    // A text within quotes may look like a dash, and an alias may refer to another item.
    const whole = isCutRight ? attempt(() => [...readWhole(document)]) : undefined;
    if (whole !== undefined) {
      yield* whole.slice(index);
      return;
    }
    isCutRight = false;
    yield* attemptPart(item.text, passes, () => readItem(item, list));
  }
}

/** Returns the objects of a part, or none if it is broken and skipped. @throws DrawbridgeError if it is not skipped */
function attemptPart(
  text: string,
  passes: (broken: BrokenObject) => boolean,
  read: () => readonly LocatedObject[],
): readonly LocatedObject[] {
  try {
    return read();
  } catch (error) {
    const header = error instanceof DrawbridgeError ? headerOf(text) : undefined;
    if (error instanceof DrawbridgeError && header !== undefined && passes({ ...header, reason: error })) return [];
    throw error;
  }
}

function* readWhole(document: YamlDocument): Generator<LocatedObject> {
  for (const object of readDocument(document)) yield* openList(object);
}

/** Returns the kind and version of a list's items; undefined for any other object. */
function frameOf({ frame }: CutList): List | undefined {
  const [object] = readDocument(frame);
  return asList(object?.value);
}

function readItem(item: YamlDocument, list: List): readonly LocatedObject[] {
  const [object = { value: null, lineOf: () => item.line }] = readDocument(item);
  return [...openList({ ...object, value: itemOf(list, object.value) })];
}

/** Returns the objects of a JSON document, with lists replaced by their items; undefined where it is not JSON. */
function jsonObjects({ text, line }: YamlDocument): readonly LocatedObject[] | undefined {
  if (!/^\s*\{\s*["}]/.test(text)) return undefined;
  return attempt(() => readJsonObjects([Buffer.from(text)], (object) => object, line));
}

/** An item of a list. One without a kind waits for the list's, which may come after it. */
type Item<T> =
  | { readonly isTaken: true; readonly taken: readonly T[] }
  | { readonly isTaken: false; readonly piece: JsonPiece };

/** A list without a kind and version of its items. */
const ANY = { kind: "", apiVersion: undefined };

/**
 * Reads JSON values, with lists replaced by their items, and returns the result of `take` for each object. Only one
 * item of a list is parsed at a time.
 *
 * @param firstLine the line in which the text begins
 * @throws DrawbridgeError ERR_OBJECT naming the line
 */
export function readJsonObjects<T>(
  chunks: Iterable<Uint8Array>,
  take: (object: LocatedObject) => T,
  firstLine = 1,
): readonly T[] {
  const all: T[] = [];
  let items: Item<T>[] = [];
  const takeOf = (value: unknown, { text, line }: JsonPiece): readonly T[] =>
    [...openList({ value, lineOf: jsonLines({ text, line: line + firstLine - 1 }) })].map(take);
  for (const piece of scanJson(chunks)) {
    const value = parseJson(piece);
    if (piece.type === "item") {
      const isWhole = hasKind(value);
      items.push(isWhole ? { isTaken: true, taken: takeOf(itemOf(ANY, value), piece) } : { isTaken: false, piece });
      continue;
    }
    const list = asList(value);
    if (list === undefined) all.push(...takeOf(value, piece));
    else {
      for (const item of items) {
        all.push(...(item.isTaken ? item.taken : takeOf(itemOf(list, parseJson(item.piece)), item.piece)));
      }
    }
    items = [];
  }
  return all;
}

function hasKind(value: unknown): boolean {
  return typeof value === "object" && value !== null && "kind" in value;
}

/** Returns the lines of the fields of a JSON value. The YAML reader finds them, since JSON is YAML too. */
function jsonLines({ text, line }: Pick<JsonPiece, "text" | "line">): LocatedObject["lineOf"] {
  let objects: readonly LocatedObject[] | undefined;
  return (path) => {
    if (path.length === 0) return line;
    objects ??= attempt(() => [...readDocument({ text, line })]) ?? [];
    return objects[0]?.lineOf(path) ?? line;
  };
}

/** Returns the result of `read`, or undefined if it throws. */
function attempt<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}

/** Yields the value of a document, or nothing where it is empty or null. */
function* readDocument(document: YamlDocument): Generator<LocatedObject> {
  const simple = readSimple(document.text);
  if (simple === undefined) {
    const tree = readTree(document);
    if (tree !== undefined) yield tree;
    return;
  }
  const { value, offset } = simple;
  const line = document.line + document.text.slice(0, offset).split("\n").length - 1;
  let tree: LocatedObject | undefined;
  // The tree is read only when a field's line is needed, which is rare.
  yield {
    value,
    lineOf: (path) => (path.length === 0 ? line : ((tree ??= readTree(document))?.lineOf(path) ?? line)),
  };
}

/**
 * Yields the items of a `kind: List`, or of a typed list such as PodList, whose items may lack kind and apiVersion. The
 * items of a list inside a list come last, as in kubectl.
 */
export function* openList({ value, lineOf }: LocatedObject): Generator<LocatedObject> {
  const all: { readonly value: unknown; readonly place: FieldPath }[] = [{ value, place: [] }];
  for (const { value: object, place } of all) {
    const list = asList(object);
    if (list === undefined) yield { value: object, lineOf: (path) => lineOf([...place, ...path]) };
    else
      for (const [index, item] of list.items.entries())
        all.push({ value: itemOf(list, item), place: [...place, "items", index] });
  }
}

/** Returns an item of a list, with kind and apiVersion from the list where it has none. */
export function itemOf({ kind, apiVersion }: Pick<List, "kind" | "apiVersion">, item: unknown): unknown {
  const isObject = typeof item === "object" && item !== null && !Array.isArray(item);
  return isObject && kind !== "" ? { apiVersion, kind, ...item } : item;
}

/** A list, and the kind and version of its items. */
export interface List {
  /** The kind of the items; empty for a list of several kinds. */
  readonly kind: string;
  readonly apiVersion: unknown;
  readonly items: readonly unknown[];
}

/** Returns a value as a list; undefined for anything else. */
export function asList(value: unknown): List | undefined {
  if (typeof value !== "object" || value === null || !("kind" in value) || !("items" in value)) return undefined;
  const { kind, items } = value;
  if (typeof kind !== "string" || !kind.endsWith("List") || !(Array.isArray(items) || items === null)) return undefined;
  const apiVersion = "apiVersion" in value ? value.apiVersion : undefined;
  return { kind: kind.slice(0, -"List".length), apiVersion, items: items ?? [] };
}
