import {
  Composer,
  type CST,
  type Document,
  type ErrorCode,
  isMap,
  isNode,
  isScalar,
  isSeq,
  LineCounter,
  Parser,
} from "yaml";
import { unreadable } from "./json_scanner.ts";
import type { YamlDocument } from "./yaml_documents.ts";
import { IndentationWatch, lexemesOf, type Unindented, withIndentation } from "./yaml_lexemes.ts";
import { jsonValue } from "./yaml_value.ts";

/** The deepest nesting, far above Kubernetes' schemas. The library recurses, and at some thousands ends the process. */
const MOST_LEVELS = 64;
/** The total of characters to read again for lines within brackets or quotes that begin too far left. */
const MOST_READ_AGAIN = 64 * 1024 * 1024;
/** The library's message for a comment without a blank before it, which Go's reader allows after a quoted text. */
const BLANK_BEFORE_COMMENT = "Comments must be separated";

/** The path of a field, such as `["spec", "ingress", 0]`. */
export type FieldPath = readonly (string | number)[];

/** An object, and the lines of its fields in its text, counted from 1. */
export interface LocatedObject {
  readonly value: unknown;
  /** Returns the line of a field, or of the nearest existing field around it; of the object for an empty path. */
  readonly lineOf: (path: FieldPath) => number;
}

/**
 * Reads a document and the lines of its fields by the YAML library; undefined for an empty document and for null.
 *
 * @throws DrawbridgeError ERR_OBJECT naming the line
 */
export function readTree({ text, line: first }: YamlDocument): LocatedObject | undefined {
  const { document, lines } = compose(text, first);
  if (document === undefined) return undefined;
  const lineAt = (offset: number): number => first + lines.linePos(offset).line - 1;
  const [problem] = document.errors.filter(({ message }) => !message.startsWith(BLANK_BEFORE_COMMENT));
  if (problem !== undefined) throw unreadable(yamlProblemText(problem), lineAt(problem.pos[0]));
  const value = jsonValue(document.contents, lineAt);
  return value === null ? undefined : { value, lineOf: (path) => lineAt(offsetOf(document, path)) };
}

/** Reads the first document of a text: as in Go, the text after a line `...` is not read. */
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
    // Scalars stay texts. With uniqueKeys the library would compare each key of a map with each before it.
    const options = { prettyErrors: false, logLevel: "silent", uniqueKeys: false, resolveKnownTags: false } as const;
    const composer = new Composer({ version: "1.1", schema: "failsafe", ...options });
    const [document] = composer.compose(tokens);
    if (unindented === undefined) return { document, lines };
    indented = withIndentation(indented, unindented);
  }
}

/** Returns the offset of a field's key, or of an element; of the nearest existing one around it if it is missing. */
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

/** The parts of one read of a text by the parser. */
interface Reading {
  readonly lines: LineCounter;
  readonly firstLine: number;
  readonly watch: IndentationWatch | undefined;
  readonly onUnindented: (found: Unindented) => void;
}

/**
 * Yields the parser's tokens, up to a line that begins too far left. It checks the nesting after each lexeme, since the
 * parser itself recurses at the end of a deep one.
 */
function* tokensOf(text: string, { lines, firstLine, watch, onUnindented }: Reading): Generator<CST.Token> {
  const parser = new Parser(lines.addNewLine);
  lines.addNewLine(0);
  let isEmpty = true;
  for (const lexeme of lexemesOf(text)) {
    const found = watch?.next(lexeme);
    if (found !== undefined) return onUnindented(found);
    for (const token of parser.next(lexeme)) {
      const unexpected = unexpectedToken(token, isEmpty);
      if (unexpected !== undefined) throw unreadable(unexpected, firstLine + lines.linePos(token.offset).line - 1);
      if (token.type === "document" && token.value !== undefined) isEmpty = false;
      yield token;
    }
    // The outermost level is the document.
    if (parser.stack.length > MOST_LEVELS + 1) {
      const line = firstLine + lines.linePos(parser.offset).line - 1;
      throw unreadable(`more than ${MOST_LEVELS} levels of lists and objects`, line);
    }
  }
  yield* parser.end();
}

/** Returns why a token is refused. Directives are, since kubectl splits the file at the `---` that ends them. */
function unexpectedToken(token: CST.Token, isEmpty: boolean): string | undefined {
  if (token.type === "directive") return `the directive ${token.source}; expected none`;
  return token.type === "doc-end" && isEmpty ? "... without a value before it" : undefined;
}

/** A mistake in a YAML text as the library reports it. */
interface YamlMistake {
  readonly code: ErrorCode;
  readonly message: string;
}

/** The mistake in words, and the expectation. */
const TEXTS: Readonly<Record<ErrorCode, string>> = {
  ALIAS_PROPS: "an alias (*name) has an anchor or a tag of its own; expected the alias without them",
  BAD_ALIAS: "an anchor (&) or an alias (*) has no usable name; expected letters, digits, - or _ after it",
  BAD_DIRECTIVE: "a line begins with %; expected an object (quote a text that begins with %)",
  BAD_DQ_ESCAPE:
    'a text in "quotes" has a \\ that YAML does not know; expected \\\\ for one backslash, or single quotes',
  BAD_INDENT:
    "a line is indented otherwise than its neighbours; expected the same number of blanks for all entries of a list or an object",
  BAD_PROP_ORDER: "an anchor or a tag stands before the sign - or ? or :; expected it after that",
  BAD_SCALAR_START: "a value begins with a sign that YAML reserves; expected quotes around such a text",
  BLOCK_AS_IMPLICIT_KEY:
    "a line has two keys (`a: b: c`), or a list where a key is expected; expected one key in a line, and quotes around a text with `: `",
  BLOCK_IN_FLOW: "lines with `- ` or `key:` stand within brackets; expected entries with commas there",
  DUPLICATE_KEY: "a key stands twice in one object; expected it once",
  IMPOSSIBLE: "this is not YAML",
  KEY_OVER_1024_CHARS: "a key has more than 1,024 characters; is a quote or a colon missing?",
  MISSING_CHAR: "a sign is missing; expected `key: value`, with a blank after the colon",
  MULTILINE_IMPLICIT_KEY:
    "a line is neither `key: value` nor the rest of the text before it; is a colon or a quote missing here or on the line before?",
  MULTIPLE_ANCHORS: "a value has two anchors (&); expected one",
  MULTIPLE_DOCS: "a second document begins here; expected a line --- before it",
  MULTIPLE_TAGS: "a value has two tags (!); expected one",
  NON_STRING_KEY: "a key is not a text; expected quotes around it",
  RESOURCE_EXHAUSTION: "the text is nested too deeply or refers to itself too often",
  TAB_AS_INDENT: "a line is indented by a tab; expected blanks",
  TAG_RESOLVE_FAILED: "a tag (!name) that cannot be applied to its value; expected the value without it",
  UNEXPECTED_TOKEN: "a sign that has no place here; is a bracket, a quote or a comma missing before it?",
  BAD_COLLECTION_TYPE: "a tag for another kind of value; expected the value without it",
};

/** Texts by the library's message, since it has one code for all missing characters. */
const MISSING: readonly (readonly [RegExp, string])[] = [
  [/closing ['"]quote/, "a quote is opened and not closed; expected the same quote at the end of the text"],
  [/end with a }/, "a { is not closed; expected } after its last entry"],
  [/end with a \]/, "a [ is not closed; expected ] after its last entry"],
  [/Missing , (or : )?between/, "two entries within brackets have no comma between them; expected one"],
  [/Missing space after :/, "a colon within brackets has no blank after it; expected `key: value`"],
  [/Sequence item without -/, "an entry of a list without `- ` before it; expected it as in the lines above"],
  [/Tags and anchors must be separated/, "a tag or an anchor has no blank after it; expected one"],
  [/Comments must be separated/, "a comment (#) has no blank before it; expected one, or quotes around a text with #"],
];

/** Describes a mistake in plain words, with the expectation, since the library's messages use YAML's internal terms. */
function yamlProblemText({ code, message }: YamlMistake): string {
  const missing =
    code === "MISSING_CHAR" || code === "BAD_INDENT" ? MISSING.find(([words]) => words.test(message)) : undefined;
  return missing?.[1] ?? TEXTS[code];
}
