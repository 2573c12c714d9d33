import { CST, Lexer } from "yaml";

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
export function lexemesOf(text: string): Iterable<string> {
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
export interface Unindented {
  readonly at: number;
}

/**
 * Finds lines within brackets or quotes that the library refuses for their indentation: it has to be larger than the
 * parent's, while for Go's reader it does not matter.
 */
export class IndentationWatch {
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
export function withIndentation(text: string, { at }: Unindented): string {
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
