import { DrawbridgeError } from "../../kernel/error.ts";
import type { Clock } from "../clock.ts";
import type { DirectoryEvent, FileState, WatchedDirectory } from "./watched_directory.ts";
import { isObjectFile } from "./watched_directory.ts";

interface MemoryFile {
  readonly text: string;
  readonly state: FileState;
}

/** A directory that exists in memory alone, whose files are written step by step. */
export class MemoryDirectory implements WatchedDirectory {
  readonly #clock: Clock;
  readonly #files = new Map<string, MemoryFile>();
  #writes = 0;
  /** Whether the kernel has an inotify watch left for it. */
  canBeFollowed = true;
  #onEvent: ((event: DirectoryEvent, fileName: string | undefined) => void) | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** The file has this text now; "rename" as if it had been written elsewhere and moved here. */
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
