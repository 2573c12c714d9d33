import { CST, Lexer } from "yaml";

const COLON_BEFORE_SIGN = /:[,[\]{}]/;
const SIGNS = new Set([",", "[", "]", "{", "}"]);
const BLANK = /^[ \t\n]+$/;

/**
 * Returns the lexemes of a text for the library's parser. Within brackets a colon directly before a comma or a bracket
 * belongs to the text without quotes before it, as for Go's reader (goyaml v2, scannerc.go, scan_plain_scalar): `[a:]`
 * has the text `a:`, where the library finds an object with the key `a`.
 */
export function lexemesOf(text: string): Iterable<string> {
  const lexemes = new Lexer().lex(text);
  return COLON_BEFORE_SIGN.test(text) ? withColons(text, lexemes) : lexemes;
}

function* withColons(text: string, lexemes: Iterable<string>): Generator<string> {
  let offset = 0;
  let depth = 0;
  let isAfterMark = false;
  /** A text without quotes and what follows it, until the lexeme that decides whether it gets a colon. */
  let held: string[] = [];
  for (const lexeme of lexemes) {
    if (lexeme !== CST.DOCUMENT && lexeme !== CST.FLOW_END && lexeme !== CST.SCALAR) offset += lexeme.length;
    if (held.length > 0) {
      if (BLANK.test(lexeme) || lexeme === CST.SCALAR) held.push(lexeme);
      else if (lexeme === ":" && SIGNS.has(text[offset] ?? "")) held = [`${held.join("")}:`];
      // Between a colon and a comma the lexer has an empty text, which has no place after a text.
      else if (lexeme === "" && held.at(-1) === CST.SCALAR) held.pop();
      else {
        yield* held;
        isAfterMark = held.at(-1) === CST.SCALAR;
        held = [];
      }
      if (held.length > 0) continue;
    }
    if (isAfterMark && depth > 0) held = [lexeme];
    else yield lexeme;
    isAfterMark = lexeme === CST.SCALAR;
    if (lexeme === "{" || lexeme === "[") depth++;
    else if (lexeme === "}" || lexeme === "]") depth--;
    else if (lexeme === CST.DOCUMENT || lexeme === CST.FLOW_END) depth = 0;
  }
  yield* held;
}
