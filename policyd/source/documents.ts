import { Buffer } from "node:buffer";
import type { CST, Document } from "yaml";
import { Composer, isMap, isNode, isScalar, isSeq, Lexer, LineCounter, Parser } from "yaml";
import type { JsonPiece } from "./json_scanner.ts";
import { parseJson, scanJson, unreadable } from "./json_scanner.ts";
import type { YamlDocument } from "./yaml_documents.ts";
import { yamlDocuments } from "./yaml_documents.ts";
import { yamlProblemText } from "./yaml_problem.ts";
import type { Unindented } from "./yaml_indentation.ts";
import { IndentationWatch, withIndentation } from "./yaml_indentation.ts";
import { jsonValue } from "./yaml_value.ts";

/** Far above what Kubernetes' schemas need. The YAML library recurses, and at some thousands ends the process. */
const MOST_LEVELS = 64;
/** Characters that are read again, in sum, because lines within brackets or quotes begin too far left. */
const MOST_READ_AGAIN = 64 * 1024 * 1024;
/** The library asks for a blank before a comment; Go's reader does not, after a quoted text. */
const BLANK_BEFORE_COMMENT = "Comments must be separated";

/**
 * The objects in the text of a file, one after the other: YAML documents or one JSON value, lists opened.
 *
 * YAML is read as kubectl reads it (sigs.k8s.io/yaml, YAML 1.1): unquoted `yes`, `on` and `y` are booleans and 0777 is
 * octal, while times and `1:30` stay texts. A label `yes` is therefore refused as a boolean, as the API server does.
 * Keys given twice are an error. In JSON the last of two equal keys counts, as in Go.
 *
 * @param fileName decides between the two by `.json`
 * @throws DrawbridgeError ERR_OBJECT naming the line, when it is reached; what came before may be part of a torn file
 */
export function* readObjects(text: string, fileName: string): Generator {
  if (fileName.endsWith(".json")) for (const { value } of openList(parseJson({ text }))) yield value;
  else for (const { value } of readYamlObjects(text)) yield value;
}

/** Where a field is: `["spec", "ingress", 0]`. */
export type FieldPath = readonly (string | number)[];

/** An object, and the lines of its fields in the text it stands in, counted from 1. */
export interface LocatedObject {
  readonly value: unknown;
  /** Of a field, or where there is none of what is nearest around it; of the object itself for an empty path. */
  readonly lineOf: (path: FieldPath) => number;
}

/**
 * As {@link readObjects} for YAML, with the lines.
 *
 * @throws DrawbridgeError ERR_OBJECT naming the line, when it is reached
 */
export function* readYamlObjects(text: string): Generator<LocatedObject> {
  let isFirst = true;
  for (const document of yamlDocuments(text)) {
    const objects = isFirst ? jsonObjects(document) : undefined;
    isFirst = false;
    if (objects !== undefined) {
      yield* objects;
      continue;
    }
    for (const { value, lineOf } of readDocument(document)) {
      for (const { value: object, path: place } of openList(value)) {
        yield { value: object, lineOf: (path) => lineOf([...place, ...path]) };
      }
    }
  }
}

/** The JSON objects that a document is made of, lists opened; undefined where it is not JSON: it may still be YAML. */
function jsonObjects({ text, line }: YamlDocument): readonly LocatedObject[] | undefined {
  if (!/^\s*\{\s*["}]/.test(text)) return undefined;
  return attempt(() => readJsonObjects([Buffer.from(text)], (object) => object, line));
}

/** An item that leaves out its kind waits for the list's, which may stand after it. */
type Item<T> = { readonly isTaken: true; readonly taken: T } | { readonly isTaken: false; readonly piece: JsonPiece };

/** A list that says nothing of its items. */
const ANY = { kind: "", apiVersion: undefined };

/**
 * Reads JSON values one after the other, lists opened, and returns what `take` makes of each object. Of a list only one item is a
 * tree at a time.
 *
 * @param firstLine of the text
 * @throws DrawbridgeError ERR_OBJECT naming the line
 */
export function readJsonObjects<T>(
  chunks: Iterable<Uint8Array>,
  take: (object: LocatedObject) => T,
  firstLine = 1,
): readonly T[] {
  const all: T[] = [];
  let items: Item<T>[] = [];
  const takeOf = (value: unknown, { text, line }: JsonPiece): T =>
    take({ value, lineOf: (path) => jsonLine({ text, line: line + firstLine - 1 }, path) });
  for (const piece of scanJson(chunks)) {
    const value = parseJson(piece);
    if (piece.type === "item") {
      const isWhole = hasKind(value);
      items.push(isWhole ? { isTaken: true, taken: takeOf(itemOf(ANY, value), piece) } : { isTaken: false, piece });
      continue;
    }
    const list = asList(value);
    if (list === undefined) all.push(takeOf(value, piece));
    else {
      for (const item of items) {
        all.push(item.isTaken ? item.taken : takeOf(itemOf(list, parseJson(item.piece)), item.piece));
      }
    }
    items = [];
  }
  return all;
}

function hasKind(value: unknown): boolean {
  return typeof value === "object" && value !== null && "kind" in value;
}

/** The line of a field in the text of a JSON value: JSON is YAML, too. */
function jsonLine({ text, line }: Pick<JsonPiece, "text" | "line">, path: FieldPath): number {
  if (path.length === 0) return line;
  const [object] = attempt(() => [...readDocument({ text, line })]) ?? [];
  return object?.lineOf(path) ?? line;
}

/** Undefined where the text is not what was tried. */
function attempt<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}

function* readDocument({ text, line: first }: YamlDocument): Generator<LocatedObject> {
  const { document, lines } = compose(text, first);
  if (document === undefined) return;
  const lineAt = (offset: number): number => first + lines.linePos(offset).line - 1;
  const [problem] = document.errors.filter(({ message }) => !message.startsWith(BLANK_BEFORE_COMMENT));
  if (problem !== undefined) throw unreadable(yamlProblemText(problem), lineAt(problem.pos[0]));
  const value = jsonValue(document.contents, lineAt);
  if (value !== null) yield { value, lineOf: (path) => lineAt(offsetOf(document, path)) };
}

/** The first document of a text: as in Go, what follows a line `...` is not read. */
function compose(
  text: string,
  firstLine: number,
): { readonly document: Document | undefined; readonly lines: LineCounter } {
  let indented = text;
  for (let readAgain = 0; ; readAgain += indented.length) {
    const lines = new LineCounter();
    const watch = readAgain > MOST_READ_AGAIN ? undefined : new IndentationWatch(indented);
    let unindented: Unindented | undefined;
    const tokens = tokensOf(indented, { lines, firstLine, watch, onUnindented: (found) => (unindented ??= found) });
    // Every scalar stays the text it is. The library would compare each key of a map with each before it.
    const options = { prettyErrors: false, logLevel: "silent", uniqueKeys: false, resolveKnownTags: false } as const;
    const composer = new Composer({ version: "1.1", schema: "failsafe", ...options });
    const [document] = composer.compose(tokens);
    if (unindented === undefined) return { document, lines };
    indented = withIndentation(indented, unindented);
  }
}

/** Where a field's key begins, or an element; of what is nearest around it where the document has no such field. */
function offsetOf(document: Document, path: FieldPath): number {
  let node: unknown = document.contents;
  let offset = document.contents?.range?.[0] ?? document.range?.[0] ?? 0;
  for (const step of path) {
    let next: unknown;
    let place: unknown;
    if (isMap(node)) {
      const pair = node.items.find(({ key }) => isScalar(key) && key.value === step);
      [place, next] = [pair?.key, pair?.value];
    } else if (isSeq(node) && typeof step === "number") {
      next = node.items[step];
      place = next;
    }
    if (!isNode(place)) return offset;
    offset = place.range?.[0] ?? offset;
    node = next;
  }
  return offset;
}

/** How the parser is fed, and what is reported of the text. */
interface Reading {
  readonly lines: LineCounter;
  readonly firstLine: number;
  readonly watch: IndentationWatch | undefined;
  readonly onUnindented: (found: Unindented) => void;
}

/**
 * The parser's tokens, up to a line that begins too far left. Nesting is judged after each piece of text: where a deep one ends
 * the parser recurses, too.
 */
function* tokensOf(text: string, { lines, firstLine, watch, onUnindented }: Reading): Generator<CST.Token> {
  const parser = new Parser(lines.addNewLine);
  lines.addNewLine(0);
  let isEmpty = true;
  for (const lexeme of new Lexer().lex(text)) {
    const found = watch?.next(lexeme);
    if (found !== undefined) return onUnindented(found);
    for (const token of parser.next(lexeme)) {
      const unexpected = unexpectedToken(token, isEmpty);
      if (unexpected !== undefined) throw unreadable(unexpected, firstLine + lines.linePos(token.offset).line - 1);
      if (token.type === "document" && token.value !== undefined) isEmpty = false;
      yield token;
    }
    // The outermost is the document.
    if (parser.stack.length > MOST_LEVELS + 1) {
      const line = firstLine + lines.linePos(parser.offset).line - 1;
      throw unreadable(`more than ${MOST_LEVELS} levels of lists and objects`, line);
    }
  }
  yield* parser.end();
}

/** Directives have no place, since kubectl cuts the file at the `---` that ends them. */
function unexpectedToken(token: CST.Token, isEmpty: boolean): string | undefined {
  if (token.type === "directive") return `the directive ${token.source}; expected none`;
  return token.type === "doc-end" && isEmpty ? "... without a value before it" : undefined;
}

/** A value and, for one out of a list, where in the list's document it is. */
interface Opened {
  readonly value: unknown;
  readonly path: FieldPath;
}

/** The items of a `kind: List`, or of a typed one such as PodList, whose items may leave out what the list says. */
function* openList(value: unknown): Generator<Opened> {
  const list = asList(value);
  if (list === undefined) {
    yield { value, path: [] };
    return;
  }
  for (const [index, item] of list.items.entries()) yield { value: itemOf(list, item), path: ["items", index] };
}

/**
 * An item of a list, with what the list says of it.
 *
 * @throws DrawbridgeError ERR_OBJECT for a list inside a list
 */
export function itemOf({ kind, apiVersion }: Pick<List, "kind" | "apiVersion">, item: unknown): unknown {
  if (asList(item) !== undefined) throw unreadable("a list inside a list; expected objects");
  const isObject = typeof item === "object" && item !== null && !Array.isArray(item);
  return isObject && kind !== "" ? { apiVersion, kind, ...item } : item;
}

/** What a list says of its items. */
export interface List {
  /** Of the items; empty for a list of anything. */
  readonly kind: string;
  readonly apiVersion: unknown;
  readonly items: readonly unknown[];
}

/** A value as a list; undefined for any other object. */
export function asList(value: unknown): List | undefined {
  if (typeof value !== "object" || value === null || !("kind" in value) || !("items" in value)) return undefined;
  const { kind, items } = value;
  if (typeof kind !== "string" || !kind.endsWith("List") || !(Array.isArray(items) || items === null)) return undefined;
  const apiVersion = "apiVersion" in value ? value.apiVersion : undefined;
  return { kind: kind.slice(0, -"List".length), apiVersion, items: items ?? [] };
}
