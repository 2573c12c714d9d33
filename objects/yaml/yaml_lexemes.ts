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
