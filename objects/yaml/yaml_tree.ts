import { Composer, type CST, type Document, isMap, isNode, isScalar, isSeq, LineCounter, Parser } from "yaml";
import { unreadable } from "./json_scanner.ts";
import type { YamlDocument } from "./yaml_documents.ts";
import { IndentationWatch, type Unindented, withIndentation } from "./yaml_indentation.ts";
import { lexemesOf } from "./yaml_lexemes.ts";
import { yamlProblemText } from "./yaml_problem.ts";
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
