import { CST } from "yaml";

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
