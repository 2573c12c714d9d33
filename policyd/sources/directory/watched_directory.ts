import {
  type BigIntStats,
  closeSync,
  constants,
  fstatSync,
  type FSWatcher,
  openSync,
  readdirSync,
  readSync,
  statSync,
  watch,
} from "node:fs";
import path from "node:path";
import { DrawbridgeError } from "../../../kernel/error.ts";

/** The state of a file, with a signature that distinguishes it from other states. */
export interface FileState {
  /** Changes with every write, rename or replacement. */
  readonly signature: string;
  /** The time of the last write, in milliseconds since the epoch. */
  readonly modifiedAt: number;
  readonly size: number;
}

/** "rename": the name appeared, went or now means another file; "change": the file was written or its mode changed. */
export type DirectoryEvent = "rename" | "change";

/** A directory whose files are listed, read and followed. */
export interface WatchedDirectory {
  /** Returns the visible `.yaml`, `.yml` and `.json` files. @throws DrawbridgeError ERR_OBJECT if listing fails */
  list(): readonly string[];
  /**
   * Returns the state of a file; undefined when it does not exist. It follows links, as a mounted ConfigMap needs.
   *
   * @throws DrawbridgeError ERR_OBJECT when the state cannot be read
   */
  look(fileName: string): FileState | undefined;
  /** Returns a file's text. @throws DrawbridgeError ERR_OBJECT if it is too large, not UTF-8 or not a regular file */
  read(fileName: string, limit: number): string;
  /**
   * Reports changes, with the file's name or undefined where more may have changed. Another call follows the directory
   * that has the path now. Changes can be missed, so scan from time to time.
   *
   * @throws DrawbridgeError ERR_OBJECT when the kernel has no inotify watch left
   */
  follow(onEvent: (event: DirectoryEvent, fileName: string | undefined) => void): void;
  /** Ends {@link follow}. */
  close(): void;
}

const decoder = new TextDecoder("utf-8", { fatal: true });

/** Whether a file of this name is read for objects. Hidden files are unfinished or have another use. */
export function isObjectFile(fileName: string): boolean {
  return /^[^.].*\.(ya?ml|json)$/.test(fileName);
}

/** A real directory, followed by inotify. */
export class RealDirectory implements WatchedDirectory {
  readonly #path: string;
  #watcher: FSWatcher | undefined;
  #watched = "";

  constructor(directory: string) {
    this.#path = directory;
  }

  list(): readonly string[] {
    return readable(this.#path, () => readdirSync(this.#path).filter(isObjectFile));
  }

  look(fileName: string): FileState | undefined {
    const stats = readable(fileName, () =>
      statSync(`${this.#path}/${fileName}`, { bigint: true, throwIfNoEntry: false }),
    );
    if (stats === undefined) return undefined;
    const { dev, ino, size, mtimeNs, ctimeNs } = stats;
    const signature = [dev, ino, size, mtimeNs, ctimeNs].join(":");
    return { signature, modifiedAt: Number(stats.mtimeMs), size: Number(size) };
  }

  read(fileName: string, limit: number): string {
    return readable(fileName, () => {
      // O_NONBLOCK: opening a pipe must not wait for its writer.
      const fd = openSync(`${this.#path}/${fileName}`, constants.O_RDONLY | constants.O_NONBLOCK);
      try {
        return decode(readOpen(fd, fstatSync(fd, { bigint: true }), limit));
      } finally {
        closeSync(fd);
      }
    });
  }

  follow(onEvent: (event: DirectoryEvent, fileName: string | undefined) => void): void {
    const identity = this.#identity();
    if (this.#watcher !== undefined && identity === this.#watched) return;
    this.close();
    if (identity === undefined) return;
    const watcher = readable(`${this.#path} for changes`, () =>
      watch(this.#path, { persistent: false }, (event, fileName) => {
        if (fileName === null || this.#standsForAll(fileName)) onEvent(event, undefined);
        else if (isObjectFile(fileName)) onEvent(event, fileName);
      }),
    );
    watcher.on("error", () => {
      this.close();
      onEvent("change", undefined);
    });
    this.#watcher = watcher;
    this.#watched = identity;
  }

  close(): void {
    this.#watcher?.close();
    this.#watcher = undefined;
  }

  /** Whether the name stands for all files: the directory itself, or `..data`, the link of a mounted ConfigMap. */
  #standsForAll(fileName: string): boolean {
    return fileName.startsWith("..") || fileName === path.basename(this.#path);
  }

  #identity(): string | undefined {
    const stats = readable(this.#path, () => statSync(this.#path, { bigint: true, throwIfNoEntry: false }));
    return stats === undefined ? undefined : `${stats.dev}:${stats.ino}`;
  }
}

function readOpen(fd: number, stats: BigIntStats, limit: number): Uint8Array {
  if (!stats.isFile()) throw new DrawbridgeError("ERR_OBJECT", "no regular file; expected a file of objects");
  if (stats.size > limit) throw tooLarge(stats.size, limit);
  // One more byte than expected shows that the file has grown; the next scan sees that too.
  const buffer = new Uint8Array(Number(stats.size) + 1);
  let length = 0;
  for (let count = -1; count !== 0 && length < buffer.length; length += count) {
    count = readSync(fd, buffer, length, buffer.length - length, null);
  }
  return buffer.subarray(0, length);
}

function decode(bytes: Uint8Array): string {
  try {
    return decoder.decode(bytes);
  } catch {
    throw new DrawbridgeError("ERR_OBJECT", "not UTF-8; expected YAML or JSON in UTF-8");
  }
}

function tooLarge(size: bigint, limit: number): DrawbridgeError {
  return new DrawbridgeError("ERR_OBJECT", `${size} bytes; expected at most ${limit}: split the file`);
}

function readable<T>(what: string, call: () => T): T {
  try {
    return call();
  } catch (error) {
    if (error instanceof Error && "code" in error && !(error instanceof DrawbridgeError)) {
      throw new DrawbridgeError("ERR_OBJECT", `${what} cannot be read: ${error.message}`);
    }
    throw error;
  }
}
