/** Splits a text that arrives in chunks of bytes into its lines. */
export class LineSplitter {
  readonly #decoder = new TextDecoder();
  #begun = "";

  /** The number of characters of the line whose end has not arrived. */
  get pending(): number {
    return this.#begun.length;
  }

  /** Yields the lines that end in this chunk, without their line ends. */
  *push(chunk: Uint8Array): Generator<string> {
    const [first = "", ...rest] = this.#decoder.decode(chunk, { stream: true }).split("\n");
    this.#begun += first;
    for (const next of rest) {
      const line = this.#begun;
      this.#begun = next;
      yield line;
    }
  }

  /** Returns the last line, which has no line end; empty after a text that ends in one. */
  end(): string {
    return this.#begun + this.#decoder.decode();
  }
}

/** Yields the lines of a text in chunks, and undefined for a line of more characters than the longest. */
export function* linesOf(chunks: Iterable<Uint8Array>, longest: number): Generator<string | undefined> {
  const splitter = new LineSplitter();
  for (const chunk of chunks) {
    for (const line of splitter.push(chunk)) yield line.length > longest ? undefined : line;
    if (splitter.pending > longest) yield undefined;
  }
  yield splitter.end();
}
