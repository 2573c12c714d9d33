import type { Document, Scalar, Tags } from "yaml";
import { Composer, CST, isMap, isNode, isScalar, isSeq, Lexer, LineCounter, Parser } from "yaml";
import { DrawbridgeError } from "../../kernel/error.ts";

/** Far above what Kubernetes' schemas need. The YAML library recurses, and at some thousands ends the process. */
const MOST_LEVELS = 64;
/** Aliases and what they stand for may multiply: the library counts the product. */
const MOST_ALIASES = 100;
/** For each alias the library looks at all anchors and aliases of its document. */
const MOST_NAMES = 1000;
const LONGEST_REASON = 200;

/** Only values JSON has; kubectl keeps a time a text and knows none of the others. */
const NO_JSON = new Set(["timestamp", "binary", "omap", "pairs", "set"].map((tag) => `tag:yaml.org,2002:${tag}`));

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
  if (fileName.endsWith(".json")) for (const { value } of openList(parseJson(text))) yield value;
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
  for (const { value, lineOf } of readDocuments(text)) {
    for (const { value: object, path: place } of openList(value)) {
      yield { value: object, lineOf: (path) => lineOf([...place, ...path]) };
    }
  }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw unreadable(error instanceof Error ? error.message : String(error));
  }
}

function* readDocuments(text: string): Generator<LocatedObject> {
  const lines = new LineCounter();
  // The library compares each key of a map with each before it.
  const options = { prettyErrors: false, logLevel: "silent", uniqueKeys: false } as const;
  const composer = new Composer({ version: "1.1", customTags: jsonTags, ...options });
  for (const document of composer.compose(tokensOf(text, lines))) {
    const [problem] = [...document.errors, ...document.warnings];
    if (problem !== undefined) throw unreadable(problem.message, lines.linePos(problem.pos[0]).line);
    const repeated = repeatedKey(document.contents);
    if (repeated !== undefined) throw unreadable("Map keys must be unique", lines.linePos(startOf(repeated)).line);
    const value = plainValue(document);
    if (value !== null) yield { value, lineOf: (path) => lines.linePos(offsetOf(document, path)).line };
  }
}

/** The first key in the text that its map has already; undefined without one. */
function repeatedKey(root: unknown): Scalar | undefined {
  const left = [root];
  let first: Scalar | undefined;
  while (left.length > 0) {
    const node = left.pop();
    if (isSeq(node)) for (const item of node.items) left.push(item);
    if (!isMap(node)) continue;
    const values = new Set<unknown>();
    for (const { key, value } of node.items) {
      left.push(key, value);
      if (!isScalar(key)) continue;
      if (values.has(key.value) && (first === undefined || startOf(key) < startOf(first))) first = key;
      values.add(key.value);
    }
  }
  return first;
}

function startOf({ range }: Scalar): number {
  return range?.[0] ?? 0;
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

function jsonTags(tags: Tags): Tags {
  return tags.filter(
    (tag) => typeof tag === "string" || !(NO_JSON.has(tag.tag) || ("format" in tag && tag.format === "TIME")),
  );
}

function plainValue(document: Document): unknown {
  try {
    return document.toJS({ maxAliasCount: MOST_ALIASES });
  } catch (error) {
    // The library's own, such as a merge of what is no map: nothing of ours runs in there.
    throw unreadable(error instanceof Error ? error.message : String(error));
  }
}

/**
 * The parser's tokens. Anchors and aliases are counted, and nesting is judged after each piece of text: where a deep one
 * ends the parser recurses, too.
 */
function* tokensOf(text: string, lines: LineCounter): Generator<CST.Token> {
  const parser = new Parser(lines.addNewLine);
  lines.addNewLine(0);
  let names = 0;
  let before = "";
  for (const lexeme of new Lexer().lex(text)) {
    yield* parser.next(lexeme);
    const type = before === CST.SCALAR ? "scalar" : CST.tokenType(lexeme);
    if (type === "doc-start") names = 0;
    if (type === "anchor" || type === "alias") names++;
    before = lexeme;
    if (names > MOST_NAMES) {
      throw unreadable(`more than ${MOST_NAMES} anchors and aliases`, lines.linePos(parser.offset).line);
    }
    // The outermost is the document.
    if (parser.stack.length > MOST_LEVELS + 1) {
      throw unreadable(`more than ${MOST_LEVELS} levels of lists and objects`, lines.linePos(parser.offset).line);
    }
  }
  yield* parser.end();
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

function unreadable(reason: string, line?: number): DrawbridgeError {
  const [first = ""] = reason.slice(0, LONGEST_REASON).split("\n");
  return new DrawbridgeError("ERR_OBJECT", `${line === undefined ? "" : `line ${line}: `}${first}`);
}
