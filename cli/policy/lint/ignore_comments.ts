import type { ManifestFileSystem } from "../../input/manifest_files.ts";

/** `# drawbridge:ignore ID reason` in a file. */
export interface IgnoreComment {
  readonly file: string;
  /** From 1. */
  readonly line: number;
  /** The line it applies to: its own, or for a comment on a line of its own the next line that is not a comment. */
  readonly target: number;
  /** As written, even if no rule has this ID. */
  readonly id: string;
  /** Empty where none is given. */
  readonly reason: string;
}

const COMMENT = /(^|\s)#\s*drawbridge:ignore(?:\s+(\S+))?(?:\s+(.*\S))?\s*$/;
/** Further comments in one run are ignored and silence nothing, so that no finding is lost. */
const MOST_COMMENTS = 10_000;
const LONGEST_LINE = 4096;

/** Collects comments while files are read, since standard input can be read only once. */
export class IgnoreComments {
  readonly #found: IgnoreComment[] = [];

  /** The comments of all files that have been read to the end. */
  get all(): readonly IgnoreComment[] {
    return this.#found;
  }

  /** Returns the same files; reading them collects their comments. */
  watching(files: ManifestFileSystem): ManifestFileSystem {
    return { ...files, read: (path) => this.#pass(path, files.read(path)) };
  }

  *#pass(file: string, chunks: Iterable<Uint8Array>): Generator<Uint8Array> {
    const scan = new LineScan(file);
    for (const chunk of chunks) {
      scan.push(chunk);
      yield chunk;
    }
    this.#found.push(...scan.end().slice(0, MOST_COMMENTS - this.#found.length));
  }
}

/** Finds the comments of one file, line by line. */
class LineScan {
  readonly #file: string;
  readonly #decoder = new TextDecoder();
  readonly #found: IgnoreComment[] = [];
  /** Comments on lines of their own that wait for the line they apply to. */
  #waiting: Omit<IgnoreComment, "target">[] = [];
  #line = 1;
  #rest = "";

  constructor(file: string) {
    this.#file = file;
  }

  push(chunk: Uint8Array): void {
    const lines = (this.#rest + this.#decoder.decode(chunk, { stream: true })).split(/\r\n|\n/);
    // Only the beginning of a very long line can matter.
    this.#rest = (lines.pop() ?? "").slice(0, LONGEST_LINE);
    for (const line of lines) this.#take(line);
  }

  end(): readonly IgnoreComment[] {
    this.#take(this.#rest);
    this.#found.push(...this.#waiting.map((one) => ({ ...one, target: one.line })));
    return this.#found;
  }

  #take(line: string): void {
    const text = line.length > LONGEST_LINE ? "" : line.trim();
    const match = text.includes("drawbridge:ignore") ? COMMENT.exec(line) : null;
    const found =
      match === null ? undefined : { file: this.#file, line: this.#line, id: match[2] ?? "", reason: match[3] ?? "" };
    const isForItself = text.startsWith("#");
    if (!isForItself && text !== "" && text !== "---") {
      for (const one of this.#waiting) this.#found.push({ ...one, target: this.#line });
      this.#waiting = [];
    }
    if (found !== undefined && isForItself) this.#waiting.push(found);
    else if (found !== undefined) this.#found.push({ ...found, target: this.#line });
    this.#line++;
  }
}
