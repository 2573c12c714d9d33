import { Buffer } from "node:buffer";
import { DrawbridgeError } from "../../kernel/error.ts";

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const NEWLINE = 0x0a;
const COMMA = 0x2c;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;
const OPEN_LIST = 0x5b;
const CLOSE_LIST = 0x5d;
const MEANS_NOTHING = 0;
const MEANS_LINE = 1;
const MEANS_MUCH = 2;
const BRACKETS = [OPEN_OBJECT, CLOSE_OBJECT, OPEN_LIST, CLOSE_LIST];
const MEANING = meaningOf([QUOTE, ...BRACKETS]);
const MEANING_IN_LIST = meaningOf([QUOTE, COMMA, ...BRACKETS]);
/** Outside of all objects only blanks may occur. */
const MEANING_OUTSIDE = new Uint8Array(256).fill(MEANS_MUCH);
for (const blank of [0x20, 0x09, 0x0d]) MEANING_OUTSIDE[blank] = MEANS_NOTHING;
MEANING_OUTSIDE[NEWLINE] = MEANS_LINE;
const NOTHING = Buffer.alloc(0);
const LONGEST_REASON = 200;
/** Far above the largest object in the API server, 1.5 MiB, and above the part of a list around its items. */
const LARGEST_PIECE = 16 * 1024 * 1024;

/** A text that is one JSON value, and the line it begins in, counted from 1. */
export interface JsonPiece {
  /** An element of the member `items` of an outermost object, or an outermost object without these elements. */
  readonly type: "item" | "object";
  readonly text: string;
  readonly line: number;
}

/**
 * Splits a JSON text that arrives in chunks into its outermost objects and the elements of their `items`. The elements
 * come before their object: `kubectl get -o json` prints the kind of a list after its items. So a list of 10,000 pods
 * is never in memory as one text or one tree.
 *
 * The content of a piece is not checked; parsing does that.
 *
 * @throws DrawbridgeError ERR_OBJECT naming the line, when the text between pieces is not JSON or a piece is too large
 */
export function* scanJson(chunks: Iterable<Uint8Array>): Generator<JsonPiece> {
  const scanner = new JsonScanner();
  for (const chunk of chunks) yield* scanner.push(chunk);
  scanner.end();
}

/** Splits as {@link scanJson} does, for chunks that arrive one by one. */
export class JsonScanner {
  /** The bytes so far of the piece that is being read; they are in the store or in one chunk. */
  #window: Buffer = NOTHING;
  #store: Buffer = NOTHING;
  #at = 0;
  /** Where to continue the search for the end of a string that begins at #at and does not end in the window. */
  #inString = 0;
  #start = 0;
  #line = 1;
  #depth = 0;
  /** The text of the outermost object without its items, and the line where it begins. */
  #frame: string[] = [];
  #frameLine = 1;
  /** The last string of the outermost object. In valid JSON, a list after the string `items` is that key's value. */
  #key = "";
  #items: "before" | "inside" | "behind" = "before";
  #itemLine = 1;
  #isFirstItem = true;

  *push(chunk: Uint8Array): Generator<JsonPiece> {
    this.#append(chunk);
    if (this.#window.length > LARGEST_PIECE + chunk.length) {
      throw this.#unreadable(`a value of more than ${LARGEST_PIECE / 1024 / 1024} MiB`);
    }
    const window = this.#window;
    for (this.#skip(); this.#at < window.length; this.#skip()) {
      const byte = window[this.#at] ?? 0;
      if (byte === QUOTE) {
        const end = closingQuote(window, Math.max(this.#at + 1, this.#inString));
        if (end >= window.length) {
          this.#inString = end;
          return;
        }
        this.#inString = 0;
        this.#string(end);
      } else if (byte === COMMA && this.#depth === 2 && this.#items === "inside") yield this.#item();
      else if (byte === CLOSE_OBJECT || byte === CLOSE_LIST) yield* this.#close();
      else if (byte === OPEN_OBJECT || byte === OPEN_LIST) this.#open(byte);
      else if (this.#depth === 0) throw this.#unreadable("text outside of an object");
      this.#at++;
      if (this.#depth === 0) this.#start = this.#at;
    }
  }

  /** Appends a chunk to the unread rest of the window. Even with small chunks a byte is copied only a few times. */
  #append(chunk: Uint8Array): void {
    const rest = this.#window.subarray(this.#start);
    this.#at -= this.#start;
    this.#inString = Math.max(0, this.#inString - this.#start);
    this.#start = 0;
    if (rest.length === 0) {
      this.#store = NOTHING;
      this.#window = Buffer.from(chunk);
      return;
    }
    const length = rest.length + chunk.length;
    let from = rest.buffer === this.#store.buffer ? rest.byteOffset : this.#store.length;
    if (from + length > this.#store.length) {
      from = 0;
      this.#store = Buffer.allocUnsafeSlow(2 * length);
      this.#store.set(rest);
    }
    this.#store.set(chunk, from + rest.length);
    this.#window = this.#store.subarray(from, from + length);
  }

  /** Skips to the next byte with a meaning: most bytes of a list of pods are blanks, letters and digits. */
  #skip(): void {
    const window = this.#window;
    const end = window.length;
    const meaning = this.#depth === 0 ? MEANING_OUTSIDE : this.#depth === 2 ? MEANING_IN_LIST : MEANING;
    let at = this.#at;
    for (; at < end; at++) {
      const what = meaning[window[at] ?? 0];
      if (what === MEANS_NOTHING) continue;
      if (what === MEANS_MUCH) break;
      this.#line++;
    }
    this.#at = at;
    if (this.#depth === 0) this.#start = at;
  }

  /** Skips a string that ends at `end`. */
  #string(end: number): void {
    if (this.#depth === 0) throw this.#unreadable("text outside of an object");
    if (this.#depth === 1) this.#key = this.#window.toString("utf8", this.#at + 1, end);
    this.#at = end;
  }

  end(): void {
    if (this.#depth > 0 || this.#at < this.#window.length) throw this.#unreadable("the text ends inside an object");
  }

  #open(byte: number): void {
    this.#depth++;
    if (this.#depth === 1) {
      if (byte === OPEN_LIST) throw this.#unreadable("a list; expected an object");
      this.#frameLine = this.#line;
    }
    if (this.#depth !== 2 || byte !== OPEN_LIST || this.#key !== "items" || this.#items !== "before") return;
    this.#cutFrame(this.#at + 1);
    this.#items = "inside";
    this.#itemLine = this.#line;
    this.#isFirstItem = true;
  }

  *#close(): Generator<JsonPiece> {
    if (this.#depth === 0) throw this.#unreadable("a closing bracket without an opening one");
    if (this.#depth === 2 && this.#items === "inside") {
      const isEmpty = this.#window.toString("utf8", this.#start, this.#at).trim() === "";
      if (isEmpty && !this.#isFirstItem) throw this.#unreadable("no value after a comma");
      if (!isEmpty) yield this.#item();
      this.#start = this.#at;
      this.#items = "behind";
    }
    this.#depth--;
    if (this.#depth > 0) return;
    this.#cutFrame(this.#at + 1);
    yield { type: "object", text: this.#frame.join(""), line: this.#frameLine };
    this.#frame = [];
    this.#key = "";
    this.#items = "before";
  }

  #item(): JsonPiece {
    const text = this.#window.toString("utf8", this.#start, this.#at);
    const trimmed = text.trimStart();
    const line = this.#itemLine + newlines(text.slice(0, text.length - trimmed.length));
    this.#start = this.#at + 1;
    this.#itemLine = this.#line;
    this.#isFirstItem = false;
    return { type: "item", text: trimmed, line };
  }

  #cutFrame(end: number): void {
    this.#frame.push(this.#window.toString("utf8", this.#start, end));
    this.#start = end;
  }

  #unreadable(reason: string): DrawbridgeError {
    return unreadable(reason, this.#line);
  }
}

/** Parses a JSON text. @param line the line in which it begins @throws DrawbridgeError ERR_OBJECT naming the line */
export function parseJson({ text, line }: { readonly text: string; readonly line?: number }): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw unreadable(error instanceof Error ? error.message : String(error), line);
  }
}

/** Returns the error for a text that cannot be read, with a message of one line. */
export function unreadable(reason: string, line?: number): DrawbridgeError {
  const [first = ""] = reason.slice(0, LONGEST_REASON).split("\n");
  return new DrawbridgeError("ERR_OBJECT", `${line === undefined ? "" : `line ${line}: `}${first}`);
}

/** Returns the index of a string's closing quote from `from` on, or where to continue if it is not in the window. */
function closingQuote(window: Buffer, from: number): number {
  let at = from;
  for (; at < window.length; at++) {
    const byte = window[at];
    if (byte === QUOTE) return at;
    if (byte === BACKSLASH) at++;
  }
  return at;
}

function meaningOf(bytes: readonly number[]): Uint8Array {
  const meaning = new Uint8Array(256);
  meaning[NEWLINE] = MEANS_LINE;
  for (const byte of bytes) meaning[byte] = MEANS_MUCH;
  return meaning;
}

/** Returns how many lines end in a text. */
export function newlines(text: string): number {
  return text.split("\n").length - 1;
}
