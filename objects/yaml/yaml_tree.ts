import {
  Composer,
  CST,
  type Document,
  type ErrorCode,
  isMap,
  isNode,
  isScalar,
  isSeq,
  Lexer,
  LineCounter,
  Parser,
} from "yaml";
import { unreadable } from "./json_scanner.ts";
import type { YamlDocument } from "./yaml_documents.ts";
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

const COLON_OR_DASH_BEFORE_SIGN = /[:-][,[\]{}]/;
const SIGNS = new Set([",", "[", "]", "{", "}"]);
/** Lexemes that are not in the text. */
const MARKS: ReadonlySet<string> = new Set([CST.DOCUMENT, CST.FLOW_END, CST.SCALAR]);
/** By how much a lexeme changes the number of open brackets. */
const DEPTHS: ReadonlyMap<string, number> = new Map([
  ["{", 1],
  ["[", 1],
  ["}", -1],
  ["]", -1],
]);
const BLANK = /^[ \t\n]+$/;

/**
 * Returns the lexemes of a text for the library's parser. Within brackets a colon directly before a comma or a bracket
 * belongs to the text without quotes before it, as for Go's reader (goyaml v2, scannerc.go, scan_plain_scalar): `[a:]`
 * has the text `a:`, where the library finds an object with the key `a`. A dash directly before such a sign is a text,
 * too, where the library finds a list without brackets.
 */
function lexemesOf(text: string): Iterable<string> {
  const lexemes = new Lexer().lex(text);
  return COLON_OR_DASH_BEFORE_SIGN.test(text) ? withColons(text, lexemes) : lexemes;
}

/** A lexeme of the library's lexer. */
interface Lexeme {
  readonly lexeme: string;
  /** The character of the text after it; empty at the end. */
  readonly next: string;
  /** Whether it is a text without quotes within brackets. */
  readonly isText: boolean;
}

function* withColons(text: string, lexemes: Iterable<string>): Generator<string> {
  /** A text without quotes and what follows it, until the lexeme that decides whether it gets a colon. */
  let held: string[] = [];
  for (const found of lexemesIn(text, lexemes)) {
    if (held.length > 0 && takes(held, found)) continue;
    yield* held;
    held = found.isText ? [found.lexeme] : [];
    if (!found.isText) yield found.lexeme;
  }
  yield* held;
}

/** Adds a lexeme to a text without quotes. Returns false if it cannot belong to it. */
function takes(held: string[], { lexeme, next }: Lexeme): boolean {
  if (BLANK.test(lexeme) || lexeme === CST.SCALAR) held.push(lexeme);
  else if (lexeme === ":" && SIGNS.has(next)) held.splice(0, held.length, `${held.join("")}:`);
  // Between a colon and a comma the lexer has an empty text, which has no place after a text.
  else if (lexeme === "" && held.at(-1) === CST.SCALAR) held.pop();
  else return false;
  return true;
}

function* lexemesIn(text: string, lexemes: Iterable<string>): Generator<Lexeme> {
  let offset = 0;
  let depth = 0;
  let isAfterMark = false;
  for (const lexeme of lexemes) {
    if (!MARKS.has(lexeme)) offset += lexeme.length;
    const next = text[offset] ?? "";
    if (lexeme === "-" && !isAfterMark && depth > 0 && SIGNS.has(next)) {
      yield { lexeme: CST.SCALAR, next, isText: false };
      isAfterMark = true;
    }
    yield { lexeme, next, isText: isAfterMark && depth > 0 };
    isAfterMark = lexeme === CST.SCALAR;
    if (lexeme === CST.DOCUMENT || lexeme === CST.FLOW_END) depth = 0;
    else depth += DEPTHS.get(lexeme) ?? 0;
  }
}

/** A place in the text where the library needs more indentation. */
interface Unindented {
  readonly at: number;
}

/**
 * Finds lines within brackets or quotes that the library refuses for their indentation: it has to be larger than the
 * parent's, while for Go's reader it does not matter.
 */
class IndentationWatch {
  readonly #text: string;
  #offset = 0;
  #isScalar = false;

  constructor(text: string) {
    this.#text = text;
  }

  /** Takes the lexer's next lexeme. Returns the place of a line within brackets or quotes that begins too far left. */
  next(lexeme: string): Unindented | undefined {
    if (lexeme === CST.FLOW_END) return this.#lineAfter(this.#offset);
    if (lexeme === CST.DOCUMENT || lexeme === CST.SCALAR) {
      this.#isScalar = lexeme === CST.SCALAR;
      return undefined;
    }
    const isCut = !this.#isScalar && isCutQuote(lexeme);
    this.#isScalar = false;
    this.#offset += lexeme.length;
    return isCut ? this.#lineAfter(this.#offset) : undefined;
  }

  /** Returns the place of the first character after blanks and line feeds; undefined at the end of the text. */
  #lineAfter(offset: number): Unindented | undefined {
    const blank = /[ \t\n]*/y;
    blank.lastIndex = offset;
    blank.exec(this.#text);
    const at = blank.lastIndex;
    return at >= this.#text.length || this.#text.startsWith("...", at) ? undefined : { at };
  }
}

/** Returns the text with a line indented further than all others. */
function withIndentation(text: string, { at }: Unindented): string {
  const widest = Math.max(...(text.match(/^ */gm)?.map(({ length }) => length) ?? [0]));
  return `${text.slice(0, at)}${" ".repeat(widest + 1)}${text.slice(at)}`;
}

/** Whether a lexeme is a quoted text without its end. */
function isCutQuote(lexeme: string): boolean {
  const quote = lexeme[0];
  if (quote !== '"' && quote !== "'") return false;
  if (lexeme.length === 1 || !lexeme.endsWith(quote)) return true;
  if (quote === "'") return (lexeme.split("'").length - 1) % 2 === 1;
  const backslashes = /\\*$/.exec(lexeme.slice(0, -1))?.[0].length ?? 0;
  return backslashes % 2 === 1;
}
