import { Buffer } from "node:buffer";

/** A text in an archive. */
export interface ArchivedText {
  /** At most 155 characters. */
  readonly directory: string;
  /** At most 100 characters. */
  readonly name: string;
  readonly text: string;
}

const BLOCK = 512;

/**
 * Yields a tar archive (POSIX.1-1988, "ustar") of texts in UTF-8, which is a text itself.
 *
 * @param seconds the time of the files, since 1970
 */
export function* tarOf(files: Iterable<ArchivedText>, seconds: number): Generator<string> {
  for (const { directory, name, text } of files) {
    const size = Buffer.byteLength(text);
    yield header(directory, name, size, seconds);
    yield text;
    yield "\0".repeat((BLOCK - (size % BLOCK)) % BLOCK);
  }
  yield "\0".repeat(2 * BLOCK);
}

function header(directory: string, name: string, size: number, seconds: number): string {
  const octal = (value: number, width: number): string => `${value.toString(8).padStart(width - 1, "0")}\0`;
  const text = (value: string, width: number): string => value.slice(0, width).padEnd(width, "\0");
  const start = text(name, 100) + octal(0o644, 8) + octal(0, 8) + octal(0, 8) + octal(size, 12) + octal(seconds, 12);
  const end = `0${text("", 100)}ustar\x0000${text("", 64)}${octal(0, 8)}${octal(0, 8)}${text(directory, 155)}`;
  // The sum counts its own field as blanks.
  const sum = Buffer.from(`${start}        ${end}`).reduce((total, byte) => total + byte, 0);
  return `${start}${sum.toString(8).padStart(6, "0")}\0 ${end}`.padEnd(BLOCK, "\0");
}
