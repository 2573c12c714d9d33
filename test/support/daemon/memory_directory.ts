import { DrawbridgeError } from "../../../kernel/error.ts";
import type { Clock } from "../../../policyd/lib/clock.ts";
import {
  type DirectoryEvent,
  type FileState,
  isObjectFile,
  type WatchedDirectory,
} from "../../../policyd/sources/directory/watched_directory.ts";

interface MemoryFile {
  readonly text: string;
  readonly state: FileState;
}

/** An in-memory directory whose files are written step by step, for tests. */
export class MemoryDirectory implements WatchedDirectory {
  readonly #clock: Clock;
  readonly #files = new Map<string, MemoryFile>();
  #writes = 0;
  /** Whether the pretended kernel has an inotify watch left for it. */
  canBeFollowed = true;
  #onEvent: ((event: DirectoryEvent, fileName: string | undefined) => void) | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Writes a file; "rename" is as if it had been written elsewhere and moved here, "untold" sends no event. */
  write(fileName: string, text: string, event: DirectoryEvent | "untold"): void {
    const state = { signature: String(++this.#writes), modifiedAt: this.#clock.time(), size: text.length };
    this.#files.set(fileName, { text, state });
    if (event !== "untold") this.#onEvent?.(event, fileName);
  }

  list(): readonly string[] {
    return [...this.#files.keys()].filter(isObjectFile);
  }

  look(fileName: string): FileState | undefined {
    return this.#files.get(fileName)?.state;
  }

  read(fileName: string): string {
    return this.#files.get(fileName)?.text ?? "";
  }

  follow(onEvent: (event: DirectoryEvent, fileName: string | undefined) => void): void {
    if (!this.canBeFollowed)
      throw new DrawbridgeError("ERR_OBJECT", "the directory for changes cannot be read: ENOSPC");
    this.#onEvent = onEvent;
  }

  close(): void {
    this.#onEvent = undefined;
  }
}
