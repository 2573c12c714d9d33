import type { StoreFileSystem } from "../../ipam/file_system.ts";
import { problemOf } from "../../kernel/error.ts";
import type { FileSight } from "../../kernel/file.ts";
import type { Clock } from "../lib/clock.ts";
import { DirectoryChanges } from "./directory_changes.ts";

/** The parts of the machine that a retained directory needs. */
export interface RepairedDirectory {
  readonly files: StoreFileSystem;
  /** Returns the identity and change time of the present directory; undefined where there is none. */
  readonly sightOf: (path: string) => FileSight | undefined;
  readonly clock: Pick<Clock, "now">;
}

/** Files of the state directory are smaller, except for policies of ended namespaces. */
const LARGEST_FILE = 4 * 1024 * 1024;
const MOST_FILES = 1024;
/** Milliseconds that `rm -r` may take between removing the first file and the directory. */
const REMOVAL = 5000;

/**
 * A directory of small files whose names and contents are remembered, so that they are restored when somebody removes
 * the directory, even if another program has created it again by then.
 *
 * A single removed file is not restored, since its owner may have removed it. No part of Drawbridge removes such a
 * directory.
 */
export class DirectoryRepair {
  readonly path: string;
  readonly #place: RepairedDirectory;
  readonly #changes = new DirectoryChanges();
  #known = new Map<string, string>();
  /** Files that have just gone, with the time. */
  readonly #gone = new Map<string, { readonly text: string; readonly at: number }>();

  constructor(path: string, place: RepairedDirectory) {
    this.path = path;
    this.#place = place;
  }

  /**
   * Remembers the present files, or restores them where the directory is missing or was replaced by another.
   *
   * @returns the number of restored files
   * @throws DrawbridgeError ERR_STORE
   */
  look(): number {
    const { clock, sightOf } = this.#place;
    for (const [name, { at }] of this.#gone) if (clock.now() - at > REMOVAL) this.#gone.delete(name);
    const seen = this.#changes.see(sightOf(this.path));
    if (seen === "same") return 0;
    if (seen === "missing" || seen === "remade") return this.#restore();
    const present = this.#read();
    for (const [name, text] of this.#known) if (!present.has(name)) this.#gone.set(name, { text, at: clock.now() });
    this.#known = present;
    return 0;
  }

  #read(): Map<string, string> {
    const { files } = this.#place;
    const found = new Map<string, string>();
    for (const name of files.readDirectory(this.path).slice(0, MOST_FILES)) {
      // A leading dot marks an unfinished write.
      if (name.startsWith(".")) continue;
      const file = files.readSmallFile(`${this.path}/${name}`, LARGEST_FILE);
      if (file.kind === "text") found.set(name, file.text);
    }
    return found;
  }

  #restore(): number {
    const { files, sightOf } = this.#place;
    const lost = new Map([...[...this.#gone].map(([name, { text }]) => [name, text] as const), ...this.#known]);
    if (lost.size === 0) return 0;
    files.makeDirectory(this.path, 0o700);
    let restored = 0;
    for (const [name, text] of lost) if (files.createFile(`${this.path}/${name}`, text)) restored++;
    this.#gone.clear();
    this.#known = this.#read();
    // From now on this directory is the one to compare with.
    this.#changes.see(sightOf(this.path));
    return restored;
  }
}

/** A directory with subdirectories, such as one for each network, which are all restored. */
export class KeptTree {
  readonly #path: string;
  readonly #place: RepairedDirectory;
  readonly #directories = new Map<string, DirectoryRepair>();
  readonly #changes = new DirectoryChanges();

  constructor(path: string, place: RepairedDirectory) {
    this.#path = path;
    this.#place = place;
    this.#directories.set(path, new DirectoryRepair(path, place));
  }

  /** Does {@link DirectoryRepair.look} for all directories; those that fail are left to the next check. */
  look(): number {
    const { files, sightOf } = this.#place;
    let restored = 0;
    const seen = this.#changes.see(sightOf(this.#path));
    if (seen !== "same" && seen !== "missing") {
      for (const name of files.readDirectory(this.#path).slice(0, MOST_FILES)) {
        const path = `${this.#path}/${name}`;
        if (this.#directories.has(path) || name.startsWith(".") || !files.directoryExists(path)) continue;
        this.#directories.set(path, new DirectoryRepair(path, this.#place));
      }
    }
    for (const directory of this.#directories.values()) {
      problemOf(() => (restored += directory.look()));
    }
    return restored;
  }
}
