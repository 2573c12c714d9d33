import { scalarValue } from "./yaml_scalar.ts";

/** A document that {@link readSimple} has read. */
export interface SimpleDocument {
  readonly value: object;
  /** The offset of the value in the text. */
  readonly offset: number;
}

type Values = Record<string, unknown>;

/** A key in block style with its colon, and the blanks after it. */
const KEY = /(?:([A-Za-z0-9_./][A-Za-z0-9_./-]*)|"([^"\\\n\t]*)"):(?: +|(?=\n))/y;
/** A key within brackets. */
const FLOW_KEY = /(?:([A-Za-z0-9_./][A-Za-z0-9_./-]*)|"([^"\\\n\t]*)"): +/y;
/** A text without quotes up to the end of its line, which does not begin with a sign that has a meaning. */
const PLAIN = /(?:[^-?:,[\]{}#&*!|>'"%@`\s]|-[^\s-])[^\t\n]*/y;
/** A text without quotes within brackets; YAML allows more characters in it. */
const FLOW_PLAIN = /[A-Za-z0-9_./][A-Za-z0-9_./-]*(?: [A-Za-z0-9_./-]+)*/y;
const SINGLE_QUOTED = /'((?:[^'\t\n]|'')*)'/y;
const DOUBLE_QUOTED = /"((?:[^"\\\t\n]|\\[nt"\\/])*)"/y;
const LITERAL = /\|([-+]?) *\n/y;
const END_OF_LINE = /(?: +#[^\n]*| *)\n/y;
const ESCAPED: Readonly<Record<string, string>> = { n: "\n", t: "\t" };
/** The deepest nesting, less than the library's: each level takes stack. */
const MOST_LEVELS = 32;

/** Signals that the library has to read the document. */
class NotSimple extends Error {}

/**
 * Reads a document that has only what is usual in manifests: maps and lists in block style, texts and brackets on one
 * line, literal blocks. The YAML library takes some ten times as long for the same value.
 *
 * @param text has line feeds as line ends, and only characters that YAML allows
 * @returns undefined for anything rarer, doubtful or wrong: tags, anchors, tabs, texts of several lines, keys given
 *   twice
 */
export function readSimple(text: string): SimpleDocument | undefined {
  if (!text.endsWith("\n")) return undefined;
  try {
    return new SimpleReader(text).document();
  } catch (error) {
    if (error instanceof NotSimple) return undefined;
    throw error;
  }
}

class SimpleReader {
  readonly #text: string;
  /** The offset of the next character. */
  #at = 0;
  /** The column of the line's first character; -1 at the end of the text. */
  #column = -1;

  constructor(text: string) {
    this.#text = text;
  }

  document(): SimpleDocument {
    this.#toContent();
    const offset = this.#at;
    if (this.#column < 0) throw new NotSimple();
    const value = this.#block(0);
    // A line is left over if its column fits nothing around it, as in a text that goes on in lines further to the
    // right.
    if (this.#column >= 0) throw new NotSimple();
    return { value, offset };
  }

  /** Goes from the beginning of a line to the next character that is not part of a comment. */
  #toContent(): void {
    const text = this.#text;
    for (;;) {
      const start = this.#at;
      let at = start;
      while (text[at] === " ") at++;
      const sign = text[at];
      if (sign === undefined) {
        this.#column = -1;
        return;
      }
      if (sign !== "\n" && sign !== "#") {
        const isEndOfDocument = at === start && sign === "." && text.startsWith("...", at);
        if (sign === "\t" || isEndOfDocument) throw new NotSimple();
        this.#at = at;
        this.#column = at - start;
        return;
      }
      this.#at = text.indexOf("\n", at) + 1;
    }
  }

  #toNextLine(): void {
    this.#expect(END_OF_LINE);
    this.#toContent();
  }

  #match(pattern: RegExp): RegExpExecArray | undefined {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#text);
    if (found === null) return undefined;
    this.#at = pattern.lastIndex;
    return found;
  }

  #expect(pattern: RegExp): RegExpExecArray {
    const found = this.#match(pattern);
    if (found === undefined) throw new NotSimple();
    return found;
  }

  #isDash(): boolean {
    const after = this.#text[this.#at + 1];
    return this.#text[this.#at] === "-" && (after === " " || after === "\n");
  }

  /** Reads a map or a list from its first line on. */
  #block(level: number): object {
    if (level > MOST_LEVELS) throw new NotSimple();
    return this.#isDash() ? this.#list(this.#column, level) : this.#map(this.#column, level);
  }

  #map(column: number, level: number): Values {
    const values: Values = {};
    do {
      const found = this.#expect(KEY);
      setNew(values, found, this.#member(column, level));
    } while (this.#column === column && !this.#isDash());
    return values;
  }

  /** Reads the value of a key. */
  #member(column: number, level: number): unknown {
    const sign = this.#text[this.#at];
    if (sign !== "\n" && sign !== "#") return this.#inLine(column, level);
    // Any comment here has blanks before it.
    this.#at = this.#text.indexOf("\n", this.#at);
    this.#toNextLine();
    if (this.#column > column) return this.#block(level + 1);
    return this.#column === column && this.#isDash() ? this.#list(column, level + 1) : null;
  }

  #list(column: number, level: number): unknown[] {
    if (level > MOST_LEVELS) throw new NotSimple();
    const items: unknown[] = [];
    do items.push(this.#item(column, level));
    while (this.#column === column && this.#isDash());
    return items;
  }

  #item(column: number, level: number): unknown {
    const text = this.#text;
    const dash = this.#at++;
    while (text[this.#at] === " ") this.#at++;
    const sign = text[this.#at];
    if (sign === "\n" || sign === "#") {
      this.#at = text.indexOf("\n", this.#at);
      this.#toNextLine();
      return this.#column > column ? this.#block(level + 1) : null;
    }
    KEY.lastIndex = this.#at;
    if (!this.#isDash() && !KEY.test(text)) return this.#inLine(column, level);
    this.#column = column + this.#at - dash;
    return this.#block(level + 1);
  }

  /** Reads a value that begins in the line of its key or dash. @param column the column of the key or dash */
  #inLine(column: number, level: number): unknown {
    const literal = this.#match(LITERAL);
    if (literal !== undefined) return this.#literal(column, literal[1] ?? "");
    const value = this.#text[this.#at] === "{" || this.#text[this.#at] === "[" ? this.#flow(level + 1) : this.#scalar();
    this.#toNextLine();
    return value;
  }

  #scalar(): unknown {
    const quoted = this.#quoted();
    if (quoted !== undefined) return quoted;
    const start = this.#at;
    const [line] = this.#expect(PLAIN);
    const comment = line.indexOf(" #");
    let length = comment < 0 ? line.length : comment;
    while (line[length - 1] === " ") length--;
    const text = line.slice(0, length);
    if (text.includes(": ") || text.endsWith(":")) throw new NotSimple();
    this.#at = start + length;
    return plainValue(text);
  }

  #quoted(): string | undefined {
    const double = this.#match(DOUBLE_QUOTED)?.[1];
    if (double !== undefined) {
      return double.includes("\\") ? double.replaceAll(/\\(.)/g, (_, sign: string) => ESCAPED[sign] ?? sign) : double;
    }
    return this.#match(SINGLE_QUOTED)?.[1]?.replaceAll("''", "'");
  }

  /** Reads the text within brackets, on one line. */
  #flow(level: number): unknown {
    if (level > MOST_LEVELS) throw new NotSimple();
    const isMap = this.#text[this.#at] === "{";
    const close = isMap ? "}" : "]";
    const values: Values = {};
    const items: unknown[] = [];
    this.#at++;
    this.#skipSpaces();
    for (let isFirst = true; this.#text[this.#at] !== close || !isFirst; isFirst = false) {
      if (isMap) {
        const key = this.#expect(FLOW_KEY);
        setNew(values, key, this.#flowValue(level));
      } else items.push(this.#flowValue(level));
      this.#skipSpaces();
      if (this.#text[this.#at] === close) break;
      if (this.#text[this.#at] !== ",") throw new NotSimple();
      this.#at++;
      this.#skipSpaces();
    }
    this.#at++;
    return isMap ? values : items;
  }

  #flowValue(level: number): unknown {
    const sign = this.#text[this.#at];
    if (sign === "{" || sign === "[") return this.#flow(level + 1);
    return this.#quoted() ?? plainValue(this.#expect(FLOW_PLAIN)[0]);
  }

  #skipSpaces(): void {
    while (this.#text[this.#at] === " ") this.#at++;
  }

  /** Reads a literal block. @param column the column of the key or dash; all lines are to the right of it */
  #literal(column: number, chomping: string): string {
    const text = this.#text;
    const lines: string[] = [];
    let indent = -1;
    let widest = 0;
    let last = 0;
    while (this.#at < text.length) {
      let at = this.#at;
      while (text[at] === " ") at++;
      const width = at - this.#at;
      const end = text.indexOf("\n", at);
      if (text[at] === "\n") widest = Math.max(widest, width);
      else {
        if (text[at] === "\t" && (indent < 0 || width < indent)) throw new NotSimple();
        if (width <= column) break;
        if (indent < 0) indent = width;
        if (width < indent) throw new NotSimple();
        last = lines.length + 1;
      }
      lines.push(text[at] === "\n" ? "" : text.slice(this.#at + indent, end));
      this.#at = end + 1;
    }
    // Blanks in empty lines may be part of the text.
    if (indent < 0 || widest > indent) throw new NotSimple();
    this.#toContent();
    const content = lines.slice(0, last).join("\n");
    return chomping === "-" ? content : chomping === "+" ? `${lines.join("\n")}\n` : `${content}\n`;
  }
}

function plainValue(text: string): unknown {
  const value = scalarValue(text, true, undefined);
  if (value === undefined) throw new NotSimple();
  return typeof value === "bigint" ? Number(value) : value;
}

function setNew(values: Values, [, plain, quoted = ""]: RegExpExecArray, value: unknown): void {
  const name = plain === undefined ? quoted : scalarValue(plain, true, undefined);
  if (typeof name !== "string" || name === "__proto__" || Object.hasOwn(values, name)) throw new NotSimple();
  values[name] = value;
}
